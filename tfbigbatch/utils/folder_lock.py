"""A lock on a folder that ends with its process: one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
import warnings
import weakref
from collections.abc import Callable, Iterator

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import writing_errors

NAME = ".lock"
"""The lock's file in the folder; whoever holds the lock writes into it who that is."""
# Seconds: a process that was killed holds its lock until its memory is given back.
PATIENCE = 3.0
_POLL = 0.1
_MOST_BYTES = 200
# Of file systems that have no locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class FolderLock:
    """The lock on a folder, by `flock`; the kernel releases it when the process ends, however that is.

    Programs that this process starts do not inherit it, and a forked child closes its copy at once: a child that
    outlives the process does not keep the lock.

    Args:
      folder: to lock; it is made.
      name: of the lock's file there.
    """

    def __init__(self, folder: str, name: str = NAME) -> None:
        self._descriptor: int | None = None
        # Absolute: the process may change its working directory.
        self.folder = os.path.abspath(folder)
        self._path = os.path.join(self.folder, name)
        self._made: list[str] = []

    def acquire(self, refused: Callable[[str], str], from_own: bool = False) -> None:
        """Takes the lock; on a file system without locks it warns, and does without.

        Args:
          refused: a function of who holds the lock, in words, that gives the error's message.
          from_own: whether to take it from another object of this process.

        Raises:
          ValueError: another process holds it, or another object of this one; or the folder cannot be written.
        """
        for other in list(_held) if from_own else ():
            if other._path == self._path:
                other.forget()
        with writing_errors(self.folder):
            self._made = _missing(self.folder)
            os.makedirs(self.folder, exist_ok=True)
        until = time.monotonic() + PATIENCE
        while self._descriptor is None:
            with writing_errors(self._path):
                descriptor = _opened(self._path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The last holder may have removed the file since it was opened.
                if _is_file(descriptor, self._path):
                    self._descriptor, descriptor = descriptor, -1
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InputError(refused(_holder(descriptor))) from None
                time.sleep(_POLL)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                warnings.warn(
                    f"{self.folder} is on a file system without locks ({error.strerror}): nothing keeps a second "
                    "process from writing there.",
                    stacklevel=2,
                )
                return
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        _held.add(self)
        _say_holder(self._descriptor)

    def release(self) -> None:
        """Gives the lock back, and removes its file and the folders that were made for it, if they are empty."""
        if self._descriptor is None:
            return
        # While it is locked: whoever opened the file sees that it is gone.
        with contextlib.suppress(OSError):
            os.remove(self._path)
        self.forget()
        with contextlib.suppress(OSError):
            for folder in self._made:
                os.rmdir(folder)

    def forget(self) -> None:
        """Closes the file: in a forked child this leaves the lock to its parent."""
        _held.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.forget()


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_all)


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


def _opened(path: str) -> int:
    # A folder from elsewhere may have a link here, whose target is not to be overwritten.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def _is_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _say_holder(descriptor: int) -> None:
    holder = f"process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
    # On a full disk the lock holds without it.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder}\n".encode(), 0)


def _holder(descriptor: int) -> str:
    """The process that holds the lock, as far as its file says it."""
    text = os.pread(descriptor, _MOST_BYTES, 0).decode(errors="replace").partition("\n")[0]
    return text if text and text.isprintable() else "another process"
