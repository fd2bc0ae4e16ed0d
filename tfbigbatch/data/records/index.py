"""Indexes a TFRecord file by walking its frames: reads the lengths, not the records."""

from __future__ import annotations

import os

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import open_regular


def offsets(path: str) -> np.ndarray:
    """The byte at which each record's frame begins.

    Checks each length against its checksum, and that the last record is complete; the records and their
    checksums are not read.

    Args:
      path: of an uncompressed TFRecord file.

    Returns:
      int64 [records].

    Raises:
      ValueError: the file cannot be read; or a frame is broken or cut off (the message says where).
    """
    found: list[int] = []
    position = 0
    try:
        # Unbuffered: a buffer would read 8 KB for each 12 bytes.
        with open_regular(path, None) as file:
            size = os.fstat(file.fileno()).st_size
            while position < size:
                file.seek(position)
                length = _length(path, file.read(tfrecord.HEADER_BYTES), position)
                found.append(position)
                position += tfrecord.HEADER_BYTES + length + tfrecord.FOOTER_BYTES
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if position > size:
        raise InputError(
            f"{path} is truncated: the record at byte {found[-1]} ends at byte {position}, the file at {size}. "
            "Fetch or make the file again."
        )
    return np.array(found, np.int64)


def _length(path: str, header: bytes, position: int) -> int:
    """The record's length in a frame's first 12 bytes."""
    if len(header) < tfrecord.HEADER_BYTES:
        raise InputError(
            f"{path} is truncated: {len(header)} bytes at byte {position}, where a frame begins with "
            f"{tfrecord.HEADER_BYTES}. Fetch or make the file again."
        )
    length = header[: tfrecord.LENGTH.size]
    if tfrecord.CHECKSUM.pack(tfrecord.masked_crc32c(length)) != header[tfrecord.LENGTH.size :]:
        raise InputError(
            f"{path} is not a TFRecord file, or it is broken at byte {position}: the length of a record does not "
            "match its checksum. A compressed file has to be unpacked first."
        )
    return tfrecord.LENGTH.unpack(length)[0]
