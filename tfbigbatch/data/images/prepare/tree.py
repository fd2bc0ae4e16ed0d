"""The files below a folder or within a tar, by name, and reading one of them without unpacking the others."""

import dataclasses
import functools
import gzip
import io
import os
import shutil
import tarfile
import zlib

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

# train/<class>/images/<file>, and two folders around it.
_DEEPEST = 6
_GZIP_MAGIC = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """Files by name.

    Attributes:
      container: the folder, or the tar.
      prefix: what stands before each name within the container: '' or 'folder/'.
      names: list of paths with '/'; sorted.
      offsets: int64 array of [files], where each begins in the tar; None for a folder.
      sizes: int64 array of [files], in bytes; -1 for one that cannot be looked at.
    """

    container: str
    prefix: str
    names: list
    offsets: np.ndarray | None
    sizes: np.ndarray

    def read(self, index):
        """The bytes of a file.

        Raises:
          OSError: it cannot be read, or the tar ends within it.
        """
        offset = None if self.offsets is None else int(self.offsets[index])
        return read(self.container, self.prefix + self.names[index], offset, int(self.sizes[index]))

    def text(self, name):
        """The text of a file by its name, or None where there is none of that name.

        Raises:
          ValueError: it cannot be read, or is not UTF-8.
        """
        if name not in self.places:
            return None
        where = f"{self.container}, {self.prefix}{name}"
        try:
            return self.read(self.places[name]).decode("utf-8")
        except OSError as error:
            raise InputError(f"{where} cannot be read: {error.strerror or error}.") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{where} is not UTF-8 ({error.reason}, byte {error.start}). Convert the text.") from None

    @functools.cached_property
    def places(self):
        """Dictionary from names to their indices."""
        return {name: index for index, name in enumerate(self.names)}

    def below(self, folder):
        """The Tree of what lies in a folder of this one."""
        start = f"{folder}/"
        inside = [index for index, name in enumerate(self.names) if name.startswith(start)]
        found = self.only(inside)
        return dataclasses.replace(
            found, prefix=self.prefix + start, names=[name.removeprefix(start) for name in found.names]
        )

    def only(self, indices):
        """The Tree of some of the files."""
        return dataclasses.replace(
            self,
            names=[self.names[index] for index in indices],
            offsets=None if self.offsets is None else self.offsets[indices],
            sizes=self.sizes[indices],
        )


def read(container, name, offset, size):
    """The bytes of one file; see Tree for the arguments."""
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
def _opened(path):
    # Left open for the life of the process: a tar is opened once, not for each of a million files.
    return os.open(path, os.O_RDONLY)


def of_folder(folder):
    """The Tree of a folder; links are followed."""
    found = []

    def walk(path, prefix, depth):
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_dir():
                        if depth < _DEEPEST:
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


def of_tar(path):
    """(the Tree of an uncompressed tar, names of members that are neither files nor folders).

    A tar of tars, as ImageNet's training images, gives the files in these, each below a folder of its tar's name.

    Raises:
      ValueError: it is not a tar, or not a whole one.
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
    # Of a name that was added twice the later one counts, as it does where a tar is unpacked.
    places = {name: (offset, size) for name, offset, size in found}
    names = sorted(places)
    table = np.array([places[name] for name in names], np.int64).reshape(-1, 2)
    return Tree(path, "", names, table[:, 0].copy(), table[:, 1].copy()), links


def _members(path, part):
    """([(name, offset in the file at `path`, size)], names of links) of a tar, or of a (name, offset, size) in it."""
    found, links = [], []
    where = path if part is None else f"{path}, {part[0]},"
    start = 0 if part is None else part[1]
    try:
        with open(path, "rb") as file:
            content = file if part is None else _Part(file, *part[1:])
            for member in (tar := tarfile.open(fileobj=content, mode="r:")):
                name = member.name.removeprefix("./")
                if member.isreg():
                    found.append((name, start + member.offset_data, member.size))
                elif not member.isdir():
                    links.append(name)
                # The tar keeps each member otherwise: a gigabyte for ImageNet.
                tar.members = []
    except tarfile.TarError as error:
        raise InputError(
            f"{where} is not a whole tar ({error}). Fetch the file again, or check its sum against its source's."
        ) from None
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or error}.") from None
    return found, links


class _Part(io.RawIOBase):
    """A part of a file as a file."""

    def __init__(self, file, offset, size):
        super().__init__()
        self._file, self._offset, self._size, self._position = file, offset, size, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self):
        return self._position

    def read(self, size=-1):
        left = max(0, self._size - self._position)
        size = left if size is None or size < 0 else min(size, left)
        self._file.seek(self._offset + self._position)
        data = self._file.read(size)
        self._position += len(data)
        return data


def is_gzip(path):
    """Whether a file is compressed by gzip."""
    with open(path, "rb") as file:
        return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def unpack(path, to):
    """Writes what a gzip file holds to `to`: nothing within it can be found without reading all before it.

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
