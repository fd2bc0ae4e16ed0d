"""A lock on a folder that ends with its process: one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
import warnings
import weakref
from collections.abc import Callable, Iterator

import filelock

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import check_regular, itself, read_bytes, writing_errors

NAME = ".lock"
"""The lock's file in the folder; whoever holds the lock writes into it who that is."""
# Seconds: a process that was killed holds its lock until its memory is given back.
PATIENCE = 3.0
_MOST_BYTES = 200
# Of file systems that have no locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class FolderLock:
    """The lock on a folder, by `flock`; the kernel releases it when the process ends, however that is.

    Neither a program that this process starts nor a forked child keeps it.

    Args:
      folder: to lock; it is made.
      name: of the lock's file there.
    """

    def __init__(self, folder: str, name: str = NAME) -> None:
        # Absolute: the process may change its working directory.
        self.folder = os.path.abspath(folder)
        self._path = os.path.join(self.folder, name)
        self._lock = filelock.FileLock(self._path, thread_local=False, fallback_to_soft=False)
        self._made: list[str] = []

    def acquire(self, refused: Callable[[str], str], from_own: bool = False) -> None:
        """Takes the lock; on a file system without locks it warns, and does without.

        Args:
          refused: a function of who holds the lock, in words, that gives the error's message.
          from_own: whether to take it from another object of this process.

        Raises:
          ValueError: another process holds it, or another object of this one; or the folder cannot be written.
        """
        if from_own and self._path in _held:
            _held[self._path].release()
        with writing_errors(self.folder):
            self._made = _missing(self.folder)
            os.makedirs(self.folder, exist_ok=True)
        with writing_errors(self._path):
            if os.path.lexists(self._path):
                check_regular(self._path)
            try:
                self._lock.acquire(timeout=PATIENCE, poll_interval=0.1)
            except filelock.Timeout:
                raise InputError(refused(_holder(self._path))) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                warnings.warn(
                    f"{self.folder} is on a file system without locks ({error.strerror}): nothing keeps a second "
                    "process from writing there.",
                    stacklevel=2,
                )
                return
        _held[self._path] = self._lock
        # On a full disk the lock holds without it.
        with contextlib.suppress(OSError), open(self._path, "w", encoding="utf-8", opener=itself) as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}\n")

    def release(self) -> None:
        """Gives the lock back, and removes its file and the folders that were made for it, if they are empty."""
        if not self._lock.is_locked:
            return
        # While it is locked: whoever opened the file sees that it is gone.
        with contextlib.suppress(OSError):
            os.remove(self._path)
        self._lock.release()
        with contextlib.suppress(OSError):
            for folder in self._made:
                os.rmdir(folder)


# Those of this process, by the path of the file.
_held: weakref.WeakValueDictionary[str, filelock.BaseFileLock] = weakref.WeakValueDictionary()


@contextlib.contextmanager
def locked(folder: str, refused: Callable[[str], str], name: str = NAME) -> Iterator[None]:
    """A context with the lock on a folder; see `FolderLock`."""
    lock = FolderLock(folder, name)
    lock.acquire(refused)
    try:
        yield
    finally:
        lock.release()


def _missing(folder: str) -> list[str]:
    """The folder and its parents that do not exist, the innermost first."""
    found = []
    while not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _holder(path: str) -> str:
    """The process that holds the lock, as far as its file says it."""
    text = ""
    with contextlib.suppress(OSError):
        text = read_bytes(path, _MOST_BYTES).decode(errors="replace").partition("\n")[0]
    return text if text and text.isprintable() else "another process"
