"""Lists and reads files of a folder or tar uniformly; a tar is read in place, without unpacking it."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

# Levels of folders: train/<class>/images/<file>, and two folders around it.
_DEEPEST = 6
_GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """Files of a folder or tar, by name.

    Attributes:
      container: the folder, or the tar.
      prefix: of each name within the container: '' or 'folder/'.
      names: sorted paths with '/'.
      offsets: int64 [files], the byte of the tar at which each begins; None for a folder.
      sizes: int64 [files], in bytes; -1 for a file without access.
    """

    container: str
    prefix: str
    names: list[str]
    offsets: np.ndarray | None
    sizes: np.ndarray

    def read(self, index: int) -> bytes:
        """The content of a file.

        Raises:
          OSError: it cannot be read, or the tar ends within it.
        """
        offset = None if self.offsets is None else int(self.offsets[index])
        return read(self.container, self.prefix + self.names[index], offset, int(self.sizes[index]))

    def text(self, name: str) -> str | None:
        """The text of a file, or None if there is no such file.

        Raises:
          ValueError: it cannot be read, or is not UTF-8.
        """
        if name not in self.indices:
            return None
        where = f"{self.container}, {self.prefix}{name}"
        try:
            return text_files.decoded(self.read(self.indices[name]), where)
        except OSError as error:
            raise InputError(f"{where} cannot be read: {error.strerror or error}.") from None

    @functools.cached_property
    def indices(self) -> dict[str, int]:
        """The index of each name."""
        return {name: index for index, name in enumerate(self.names)}

    def below(self, folder: str) -> Tree:
        """The Tree of a folder within this one."""
        start = f"{folder}/"
        inside = [index for index, name in enumerate(self.names) if name.startswith(start)]
        found = self.only(inside)
        return dataclasses.replace(
            found, prefix=self.prefix + start, names=[name.removeprefix(start) for name in found.names]
        )

    def only(self, indices: Sequence[int] | np.ndarray) -> Tree:
        """The Tree of some of the files."""
        return dataclasses.replace(
            self,
            names=[self.names[index] for index in indices],
            offsets=None if self.offsets is None else self.offsets[indices],
            sizes=self.sizes[indices],
        )


def read(container: str, name: str, offset: int | None, size: int) -> bytes:
    """The content of one file; see Tree for the arguments."""
    if offset is None:
        with open(os.path.join(container, name), "rb") as file:
            return file.read()
    data = os.pread(_opened(container), size, offset)
    while len(data) < size:
        piece = os.pread(_opened(container), size - len(data), offset + len(data))
        if not piece:
            raise OSError(f"{container} ends within it")
        data += piece
    return data


@functools.lru_cache(maxsize=4)
def _opened(path: str) -> int:
    # Never closed: a tar is opened once, not for each of a million files.
    return os.open(path, os.O_RDONLY)


def of_folder(folder: str) -> Tree:
    """The Tree of a folder; links are followed."""
    found: list[tuple[str, int]] = []

    def walk(path: str, prefix: str, depth: int) -> None:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    # A deeper folder is named as a file, which is no image.
                    if entry.is_dir() and depth < _DEEPEST:
                        walk(entry.path, f"{prefix}{entry.name}/", depth + 1)
                        continue
                    size = entry.stat().st_size
                except OSError:
                    size = -1
                found.append((prefix + entry.name, size))

    try:
        walk(folder, "", 1)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from None
    found.sort()
    return Tree(folder, "", [name for name, _ in found], None, np.array([size for _, size in found], np.int64))


def of_tar(path: str) -> tuple[Tree, list[str]]:
    """(the Tree of an uncompressed tar, names of members that are neither files nor folders).

    In a tar of tars, as ImageNet's training images, the files of each inner tar are in a folder with its name.

    Raises:
      ValueError: it is not a tar, or an incomplete one.
    """
    found, links = _members(path, None)
    if found and all(name.endswith(".tar") for name, _, _ in found):
        inner = []
        for name, offset, size in found:
            members, more = _members(path, (name, offset, size))
            folder = name[: -len(".tar")]
            inner += [(f"{folder}/{file}", start, length) for file, start, length in members]
            links += [f"{folder}/{file}" for file in more]
        found = inner
    # Of two members with one name the later counts, as when a tar is unpacked.
    members_by_name = {name: (offset, size) for name, offset, size in found}
    names = sorted(members_by_name)
    table = np.array([members_by_name[name] for name in names], np.int64).reshape(-1, 2)
    return Tree(path, "", names, table[:, 0].copy(), table[:, 1].copy()), links


def _members(path: str, part: tuple[str, int, int] | None) -> tuple[list[tuple[str, int, int]], list[str]]:
    """([(name, offset in the file at `path`, size)], names of links) of a tar, or of an inner tar.

    Args:
      path: of the tar.
      part: (name, offset, size) of the inner tar, or None.
    """
    found: list[tuple[str, int, int]] = []
    links: list[str] = []
    where = path if part is None else f"{path}, {part[0]},"
    start = 0 if part is None else part[1]
    try:
        with open(path, "rb") as file:
            content: Any = file if part is None else _Part(file, *part[1:])
            tar: Any = tarfile.open(fileobj=content, mode="r:")
            for member in tar:
                name = member.name.removeprefix("./")
                if member.isreg():
                    found.append((name, start + member.offset_data, member.size))
                elif not member.isdir():
                    links.append(name)
                # Otherwise the tar keeps each member: a gigabyte for ImageNet.
                tar.members = []
    except tarfile.TarError as error:
        raise InputError(
            f"{where} is not a complete tar ({error}). Fetch the file again, or check its sum against its source's."
        ) from None
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or error}.") from None
    return found, links


class _Part(io.RawIOBase):
    """A part of a file as a file."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        super().__init__()
        self._file, self._offset, self._size, self._position = file, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        size = left if size is None or size < 0 else min(size, left)
        self._file.seek(self._offset + self._position)
        data = self._file.read(size)
        self._position += len(data)
        return data


def is_gzip(path: str) -> bool:
    """Whether a file is compressed by gzip."""
    with open(path, "rb") as file:
        return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def unpack(path: str, to: str) -> None:
    """Unpacks a gzip file to `to`, since gzip has no random access.

    Raises:
      ValueError: the file is truncated or corrupt, or there is no room for its content.
    """
    try:
        with gzip.open(path, "rb") as content:
            atomic_write(to, lambda file: shutil.copyfileobj(content, file, 1 << 20))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is truncated or corrupt ({error}). Fetch the file again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be unpacked to {to}: {error.strerror or error}.") from None
