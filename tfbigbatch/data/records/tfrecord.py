"""TFRecord files and tf.train.Example without TensorFlow, whose import costs a process seconds and 400 MB.

A file is a row of frames: the record's length (8 bytes, little-endian), the length's masked CRC-32C (4), the record,
and its masked CRC-32C (4).
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format

from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import open_regular, reading_errors

LENGTH, CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")
HEADER_BYTES, FOOTER_BYTES = LENGTH.size + CHECKSUM.size, CHECKSUM.size
NO_RECORD = -1
"""In place of a record's number: no record."""
# tensorflow/core/example/example.proto and feature.proto.
_EXAMPLE_PROTO = """
    name: "example.proto" package: "tensorflow" syntax: "proto3"
    message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
    message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
    message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
    message_type {
      name: "Feature" oneof_decl { name: "kind" }
      field { name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: "BytesList" oneof_index: 0 }
      field { name: "float_list" number: 2 type: TYPE_MESSAGE type_name: "FloatList" oneof_index: 0 }
      field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: "Int64List" oneof_index: 0 }
    }
    message_type {
      name: "Features"
      field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "FeatureEntry" }
      nested_type {
        name: "FeatureEntry" options { map_entry: true }
        field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
        field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Feature" }
      }
    }
    message_type { name: "Example" field { name: "features" number: 1 type: TYPE_MESSAGE type_name: "Features" } }
"""


@functools.cache
def _example_class() -> Any:
    # A pool of its own: TensorFlow registers the same names in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_EXAMPLE_PROTO, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def framed(record: bytes) -> bytes:
    """The bytes of a record in a TFRecord file."""
    return b"".join((_header(len(record)), record, CHECKSUM.pack(masked_crc32c(record))))


def unframed(frame: bytes) -> bytes:
    """The record in a frame; empty bytes for a frame that is damaged, cut off or empty."""
    record = frame[HEADER_BYTES:-FOOTER_BYTES]
    return record if frame == framed(record) else b""


@functools.lru_cache(4096)
def _header(size: int) -> bytes:
    length = LENGTH.pack(size)
    return length + CHECKSUM.pack(masked_crc32c(length))


def masked_crc32c(data: bytes) -> int:
    """The checksum in a TFRecord's frame: CRC-32C (RFC 3720), rotated and offset by a constant."""
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def example(features: Mapping[str, Any]) -> bytes:
    """A serialized tf.train.Example; the same features give the same bytes.

    Args:
      features: from names to values: bytes or an int, for a feature of one value; a sequence of ints, or an
        array.array or NumPy array of ints or floats, for a feature of several.
    """
    found = _example_class()()
    entries = found.features.feature
    for name, value in features.items():
        if isinstance(value, bytes):
            entries[name].bytes_list.value.append(value)
        elif isinstance(value, int):
            entries[name].int64_list.value.append(value)
        else:
            floats = getattr(value, "typecode", None) == "f" or getattr(value, "dtype", None) == "float32"
            values = entries[name].float_list if floats else entries[name].int64_list
            values.value.extend(value)
    return found.SerializeToString(deterministic=True)


def values(record: bytes) -> dict[str, Any]:
    """The values of each feature of a serialized tf.train.Example, by name; () for a feature without a kind.

    Raises:
      ValueError: it is not an Example.
    """
    try:
        found = _example_class().FromString(bytes(record))
    except message.DecodeError as error:
        raise ValueError(f"no tf.train.Example: {error}") from None
    kinds = {name: feature.WhichOneof("kind") for name, feature in found.features.feature.items()}
    return {name: getattr(found.features.feature[name], kind).value if kind else () for name, kind in kinds.items()}


def bytes_of(record: bytes, name: str) -> bytes:
    """The bytes of one feature of a serialized tf.train.Example.

    Raises:
      ValueError: it is not an Example, or has no such feature of bytes.
    """
    found = values(record).get(name, ())
    if not found or not isinstance(found[0], bytes):
        raise ValueError(f"no feature {name!r} of bytes")
    return found[0]


def length_of(header: bytes) -> int | None:
    """The record's length in the first HEADER_BYTES of a frame; None where they are none, by their checksum."""
    length = header[: LENGTH.size]
    if len(header) < HEADER_BYTES or CHECKSUM.pack(masked_crc32c(length)) != header[LENGTH.size :]:
        return None
    return int(LENGTH.unpack(length)[0])


def offsets(path: str) -> np.ndarray:
    """The byte at which each record's frame begins, found by walking the frames.

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
    # Unbuffered: a buffer would read 8 KB for each 12 bytes.
    with reading_errors(path), open_regular(path, None) as file:
        size = os.fstat(file.fileno()).st_size
        while position < size:
            file.seek(position)
            length = length_of(file.read(HEADER_BYTES))
            if length is None:
                raise InputError(
                    f"{path} is not a TFRecord file, or it is broken at byte {position}: the length of a record does "
                    "not match its checksum. A compressed file has to be unpacked first."
                )
            found.append(position)
            position += HEADER_BYTES + length + FOOTER_BYTES
    if position > size:
        raise InputError(
            f"{path} is truncated: the record at byte {found[-1]} ends at byte {position}, the file at {size}. "
            "Fetch or make the file again."
        )
    return np.array(found, np.int64)


def values_at(path: str, offsets: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(offset, `values`) of the records whose frames begin at some bytes of a file.

    Raises:
      ValueError: one is not an Example; the message says where.
    """
    with open_regular(path, None) as file:
        for offset in map(int, offsets):
            file.seek(offset)
            record = file.read(LENGTH.unpack_from(file.read(HEADER_BYTES))[0])
            try:
                found = values(record)
            except ValueError as error:
                raise InputError(f"{path}: the record at byte {offset} is {error}.") from None
            yield offset, found


class RandomAccessReader:
    """Reads records by number, from files that the operating system keeps in its page cache where it has room.

    Args:
      split: Split of a prepared folder.
    """

    def __init__(self, split: Split) -> None:
        self._split, self._ends = split, np.cumsum(split.counts)
        # The files stay open as long as the reader.
        self._opened = functools.cache(lambda file: open_regular(split.files[file], None))

    def read(self, numbers: np.ndarray) -> np.ndarray:
        """Some records.

        Args:
          numbers: int64 array of [n], record numbers or NO_RECORD.

        Returns:
          object array of [n]: bytes, empty for NO_RECORD and for a record that cannot be read or is damaged.
        """
        split, files = self._split, np.searchsorted(self._ends, numbers, side="right")
        offsets = split.offsets[numbers]
        # A frame ends where the next one of the file begins, or with the file.
        in_file = split.offsets[np.minimum(numbers + 1, len(split.offsets) - 1)]
        ends = np.where(numbers + 1 == self._ends[files], split.bytes[files], in_file)
        rows = zip(numbers.tolist(), files.tolist(), offsets.tolist(), (ends - offsets).tolist())
        frames = [self._frame(*row) if number != NO_RECORD else b"" for number, *row in rows]
        found = np.empty(len(frames), object)
        found[:] = [unframed(frame) for frame in frames]
        return found

    def _frame(self, file: int, offset: int, size: int) -> bytes:
        try:
            # Held by a name: another thread that opened the same file may drop this one from the cache.
            opened = self._opened(file)
            return os.pread(opened.fileno(), size, offset)
        except OSError:
            return b""
