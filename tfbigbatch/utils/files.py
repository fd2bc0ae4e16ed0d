"""Files read and written safely: atomic writes, JSON and NumPy files from untrusted sources."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from tfbigbatch.errors import InputError

MOST_BYTES = 2**30
"""The most bytes of a file that is read as a whole."""


def atomic_write(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file atomically (temporary file, fsync, rename): neither a reader nor a crash sees half of it.

    Args:
      path: the file to replace or create.
      write: called with the open binary file.
    """
    part = f"{path}.part"
    with open(part, "wb", opener=itself) as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def itself(path: str, flags: int) -> int:
    """An opener for `open` that writes to no other file by way of a link, and waits for no reader of a FIFO."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """A context that gives an empty folder to fill, which replaces the folder `path` where the context ends well.

    Neither a reader nor a crash, of the machine too, sees a folder that is half filled; between two renames it sees
    none.
    """
    path = os.path.abspath(path)
    part, old = f"{path}.part", f"{path}.old"
    with writing_errors(path):
        # A crash between the two renames left the folder under its other name.
        if os.path.exists(old) and not os.path.exists(path):
            os.replace(old, path)
        for left in (part, old):
            shutil.rmtree(left, ignore_errors=True)
        os.makedirs(part)
    try:
        with writing_errors(path):
            yield part
            for folder, _, names in os.walk(part):
                for name in ["", *names]:
                    _sync(os.path.join(folder, name))
            if os.path.exists(path):
                os.replace(path, old)
            os.replace(part, path)
            _sync(os.path.dirname(path))
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _sync(path: str) -> None:
    """Makes a file's content, or a folder's names, last through a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def writing_errors(path: str) -> Iterator[None]:
    """A context in which a failure to write under `path` becomes an InputError that names it."""
    try:
        yield
    except _write_errors() as error:
        reason = (
            (getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)).strip().splitlines()
        )
        raise InputError(
            f"{path} cannot be written: {reason[0]}. Choose another folder, or free the disk; "
            "what was written before is unharmed."
        ) from None


@contextlib.contextmanager
def reading_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context in which a failure to read a file becomes an InputError that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None


def _write_errors() -> tuple[type[Exception], ...]:
    # TensorFlow's can come only where it is imported; commands that read run directories do without it.
    tensorflow = sys.modules.get("tensorflow")
    return (OSError, tensorflow.errors.OpError) if tensorflow else (OSError,)


def open_regular(path: str | os.PathLike[str], limit: int | None = MOST_BYTES, **text: Any) -> Any:
    """Opens a regular file to read, and nothing else: a FIFO would wait for ever, and a device may never end.

    Args:
      path: of the file; a link to one is as good.
      limit: bytes that it may have, which are read at once; None for any number, read as the caller goes.
      **text: `encoding`, `errors` and `newline` of `open`; without an encoding the file is binary.

    Returns:
      A file, as `open` gives it.

    Raises:
      OSError: it cannot be opened, is no regular file, or is larger.
    """
    check_regular(path, limit)
    # The path may name another file now, and the opening of a FIFO itself waits for a writer.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    try:
        _check(path, os.fstat(file.fileno()), limit)
        if limit is None:
            return io.TextIOWrapper(file, **text) if text else file
        # It may grow meanwhile, and Linux' own have no size.
        content = file.read(limit + 1)
        _check_size(path, len(content), limit)
    except BaseException:
        file.close()
        raise
    file.close()
    return io.TextIOWrapper(io.BytesIO(content), **text) if text else io.BytesIO(content)


def check_regular(path: str | os.PathLike[str], limit: int | None = None) -> None:
    """Checks what a path names, before a library opens it; see `open_regular`.

    Raises:
      OSError: it cannot be found, is no regular file, or is larger than `limit` bytes.
    """
    _check(path, os.stat(path), limit)


def _check(path: str | os.PathLike[str], status: os.stat_result, limit: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device; expected a regular file", os.fspath(path))
    _check_size(path, status.st_size, limit)


def _check_size(path: str | os.PathLike[str], size: int, limit: int | None) -> None:
    if limit is not None and size > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes, the most of such a file", os.fspath(path))


def read_bytes(path: str | os.PathLike[str], limit: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises:
      OSError: it cannot be read, is no regular file, or is larger.
    """
    with open_regular(path, limit) as file:
        content: bytes = file.read()
    return content


def write_json(path: str, content: Any) -> None:
    """Writes a JSON file atomically.

    Raises:
      ValueError: it cannot be written.
    """
    write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def write_text(path: str, content: str) -> None:
    """Writes a text file atomically, in UTF-8.

    Raises:
      ValueError: it cannot be written.
    """
    with writing_errors(path):
        atomic_write(path, lambda file: file.write(content.encode()))


def read_json(path: str) -> Any:
    """The content of a JSON file.

    Raises:
      ValueError: the file cannot be read or is not JSON.
    """
    try:
        # With or without a byte order mark.
        with reading_errors(path), open_regular(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except InputError:
        raise
    # RecursionError: brackets nested thousands deep.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON in UTF-8 ({error}).") from None


def read_json_dictionary(path: str) -> dict[str, Any]:
    """The content of a JSON file that holds a dictionary.

    Raises:
      ValueError: the file cannot be read, is not JSON, or holds something else.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected a dictionary.")
    return content


def read_array(path: str) -> np.ndarray:
    """The array in a .npy file. Nothing is unpickled: an array of objects could hold code.

    Raises:
      ValueError: the file cannot be read, is not a .npy file, or holds objects.
    """
    with _loading(path):
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.lib.npyio.NpzFile):
            found.close()
            raise ValueError("it holds several arrays")
        return found


def read_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays in a .npz file, by name; see `read_array`."""
    with _loading(path), np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


@contextlib.contextmanager
def _loading(path: str) -> Iterator[None]:
    try:
        check_regular(path)
        yield
    # NumPy's header parser, zipfile and zlib raise dozens of kinds of errors.
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error or type(error).__name__})") from None
