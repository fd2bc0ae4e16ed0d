"""Files read and written safely: atomic writes, JSON and NumPy files from untrusted sources."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from tfbigbatch.errors import InputError

# NumPy is imported where it is needed: every command imports this module, and --help needs no arrays.
if TYPE_CHECKING:
    import numpy as np


def atomic_write(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file atomically (temporary file, fsync, rename): neither a reader nor a crash sees half of it.

    Args:
      path: the file to replace or create.
      write: called with the open binary file.
    """
    part = f"{path}.part"
    with open(part, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


@contextlib.contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """A context that gives an empty folder to fill, which replaces the folder `path` where the context ends well.

    Neither a reader nor a crash sees a folder that is half filled; between two renames it sees none.
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
            if os.path.exists(path):
                os.replace(path, old)
            os.replace(part, path)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)


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
            f"{path} cannot be written: {reason[0]}. Choose another --model_dir, or free the disk; "
            "what was written before is unharmed."
        ) from None


def _write_errors() -> tuple[type[Exception], ...]:
    # TensorFlow's can come only where it is imported; commands that read run directories do without it.
    tensorflow = sys.modules.get("tensorflow")
    return (OSError, tensorflow.errors.OpError) if tensorflow else (OSError,)


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
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
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
    import numpy as np

    return _load(path, np.ndarray, lambda array: array)


def read_named_arrays(path: str, names: Sequence[str]) -> list[np.ndarray]:
    """The arrays with these names in a .npz file. Nothing is unpickled.

    Raises:
      ValueError: the file cannot be read, is not a .npz file, holds objects, or lacks one of the names.
    """
    import numpy as np

    return _load(path, np.lib.npyio.NpzFile, lambda arrays: [arrays[name] for name in names])


def _load(path: str, kind: type, take: Callable[[Any], Any]) -> Any:
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
        try:
            if not isinstance(found, kind):
                raise ValueError(f"it holds a {type(found).__name__}")
            return take(found)
        finally:
            if isinstance(found, np.lib.npyio.NpzFile):
                found.close()
    # NumPy's header parser, zipfile and zlib raise dozens of kinds of errors.
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error or type(error).__name__})") from None
