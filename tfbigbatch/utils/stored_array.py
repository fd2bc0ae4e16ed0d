"""Arrays that stay in their file: for an index of more records than a process should hold."""

from __future__ import annotations

import errno
import os
import struct
import zipfile
from typing import Any, overload

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import check_regular

# Of a member of a .zip file, before its name; the last four bytes are the lengths of the name and the extra field.
_ZIP_HEADER_BYTES = 30


class StoredArray:
    """A whole-number array of one dimension in a file, of which only what is asked for is read, and nothing is kept.

    Not a memory map: its pages would count as the process's memory, and stay for as long as there is room.

    Args:
      path: of the file.
      first_byte: where the first value begins.
      length: the number of values, little-endian, 8 bytes each.
    """

    def __init__(self, path: str, first_byte: int, length: int) -> None:
        self.path, self.first_byte = path, first_byte
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of it, in memory.

        Raises:
          OSError: the file cannot be read.
        """
        values = np.fromfile(self.path, "<i8", self._length, offset=self.first_byte)
        if len(values) < self._length:
            raise self._ended()
        return values.astype(dtype or np.int64, copy=False)

    @overload
    def __getitem__(self, key: slice) -> StoredArray: ...

    @overload
    def __getitem__(self, key: int | np.integer | np.ndarray) -> np.ndarray: ...

    def __getitem__(self, key: Any) -> Any:
        """The part of a slice, as a StoredArray; or the values at an index or at indices, int64.

        Raises:
          IndexError: an index is out of range.
          OSError: the file cannot be read.
        """
        if isinstance(key, slice):
            start, stop, step = key.indices(self._length)
            if step != 1:
                raise IndexError(f"a StoredArray has slices of neighbours alone, not {key}.")
            return StoredArray(self.path, self.first_byte + 8 * start, max(stop - start, 0))
        indices = np.asarray(key, np.int64)
        wrong = indices[(indices < -self._length) | (indices >= self._length)]
        if wrong.size:
            raise IndexError(f"index {wrong.flat[0]} of {self._length} values in {self.path}.")
        with open(self.path, "rb", buffering=0) as file:
            read = [
                os.pread(file.fileno(), 8, self.first_byte + 8 * at) for at in (indices % self._length).ravel().tolist()
            ]
        if any(len(each) < 8 for each in read):
            raise self._ended()
        return np.frombuffer(b"".join(read), "<i8").astype(np.int64).reshape(indices.shape)

    def _ended(self) -> OSError:
        return OSError(errno.EIO, "it ends before its last value", self.path)


def stored_array(path: str, name: str) -> StoredArray:
    """The array of that name in a .npz file, left in the file.

    Raises:
      ValueError: the file cannot be read, is not an uncompressed .npz file, or has no such array
        of int64 and one dimension.
    """
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as file:
            member = file.getinfo(f"{name}.npy")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError("it is compressed")
            with file.open(member) as content:
                if np.lib.format.read_magic(content) != (1, 0):
                    raise ValueError("it is of a later version of the .npy format")
                shape, _, dtype = np.lib.format.read_array_header_1_0(content)
                header = content.tell()
        if dtype != np.dtype("<i8") or len(shape) != 1 or header + 8 * shape[0] != member.file_size:
            raise ValueError(f"{name} is {dtype} of shape {shape}")
        with open(path, "rb") as raw:
            raw.seek(member.header_offset)
            # A local header's own lengths of the name and the extra field, which may differ from the directory's.
            name_bytes, extra_bytes = struct.unpack("<HH", raw.read(_ZIP_HEADER_BYTES)[-4:])
        first_byte = member.header_offset + _ZIP_HEADER_BYTES + name_bytes + extra_bytes + header
        if first_byte + 8 * shape[0] > os.path.getsize(path):
            raise ValueError("it is cut off")
        return StoredArray(path, first_byte, shape[0])
    # zipfile, zlib, struct and NumPy's header parser raise dozens of kinds of errors.
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error or type(error).__name__})") from None
