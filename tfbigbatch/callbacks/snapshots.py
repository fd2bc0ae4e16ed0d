"""A directory of training snapshots: each a folder that is written whole, with a checksum of every file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.folder_lock import FolderLock

_NAME = re.compile(r"step-(\d{10})")
_MANIFEST = "training.json"
_DONE = "done.json"
_KEPT = 2


class Snapshots:
    """The snapshots of one training, the newest two of them.

    A snapshot that is not what was written, or not all of it, is renamed to `damaged.step-...` and the one before it is
    read.

    Args:
      directory: folder of the snapshots; it is made.

    Raises:
      ValueError: the directory cannot be made.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._lock = FolderLock(directory)

    def make_directory(self) -> None:
        """Makes the directory, locks it until `release`, and removes what a killed process left half written.

        Raises:
          ValueError: another process trains with it.
        """
        # From this process: a `fit` that an error ended has not released it.
        self._lock.acquire(
            lambda holder: (
                f"ExactResume: another training writes to {self.directory}: {holder}. Wait until it has ended, or end "
                "it; or choose another directory."
            ),
            from_own=True,
        )
        with files.writing_errors(self.directory):
            os.makedirs(self.directory, exist_ok=True)
            for name in os.listdir(self.directory):
                if name.endswith((".part", ".old")):
                    shutil.rmtree(os.path.join(self.directory, name), ignore_errors=True)

    def release(self) -> None:
        """Leaves the directory to other processes."""
        self._lock.release()

    def steps(self) -> list[int]:
        """The steps of the snapshots, newest first."""
        if not os.path.isdir(self.directory):
            return []
        found = (_NAME.fullmatch(name) for name in os.listdir(self.directory))
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def path(self, step: int) -> str:
        """The folder of a step's snapshot."""
        return os.path.join(self.directory, f"step-{step:010d}")

    def newest(self, warn: Callable[[str], None], renames: bool = True) -> dict[str, Any] | None:
        """The manifest of the newest whole snapshot, or None where there is no snapshot.

        Args:
          warn: called with a sentence for each snapshot that is damaged.
          renames: whether damaged ones are renamed.

        Raises:
          ValueError: all are damaged.
        """
        damaged = []
        for step in self.steps():
            path = self.path(step)
            try:
                content = _checked(path)
            # ValueError: a file's name with a zero in it. RecursionError: brackets nested thousands deep.
            except (ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError) as error:
                damaged.append(f"{path}: {error}")
                continue
            for line in damaged:
                warn(f"a damaged snapshot was set aside, and the one before it is used. {line}")
            if renames:
                self._set_aside([step for step in self.steps() if step > content["step"]])
            return content
        if damaged:
            lines = "\n  ".join(damaged)
            raise InputError(
                f"ExactResume: every snapshot in {self.directory} is damaged:\n  {lines}\nPut whole files back, or "
                "remove the directory to start from the beginning."
            )
        return None

    def _set_aside(self, steps: list[int]) -> None:
        for step in steps:
            path = self.path(step)
            aside = os.path.join(self.directory, f"damaged.{os.path.basename(path)}")
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(path, aside)

    @contextlib.contextmanager
    def writing(self, step: int, content: dict[str, Any]) -> Iterator[str]:
        """A context that gives the folder to write a step's files into; they are a snapshot where it ends well.

        Args:
          content: for the manifest, in values of JSON.

        Raises:
          ValueError: the files cannot be written; the snapshots before it stay.
        """
        whole = self.path(step)
        with files.writing_errors(whole):
            with files.atomic_folder(whole) as part:
                yield part
                content = {**content, "step": step}
                sums = {name: _sum_of(os.path.join(part, name)) for name in sorted(os.listdir(part))}
                manifest = {"content": content, "files": sums, "sum": _sum_of_content(content, sums)}
                files.write_text(os.path.join(part, _MANIFEST), json.dumps(manifest, indent=1))
                _sync(part)
            _sync(self.directory)
            for old in map(self.path, self.steps()[_KEPT:]):
                # Renamed first: half a snapshot must not look like a damaged one.
                os.replace(old, f"{old}.old")
                shutil.rmtree(f"{old}.old", ignore_errors=True)

    def remove(self, step: int) -> None:
        """Removes a step's snapshot."""
        shutil.rmtree(self.path(step), ignore_errors=True)

    def write_done(self, epochs: int) -> None:
        """Notes that a training of so many epochs has ended: its last state need not be a snapshot."""
        files.write_json(os.path.join(self.directory, _DONE), {"epochs": epochs})

    def done(self) -> int:
        """The epochs that were noted last; 0 where there are none, or the file is damaged."""
        try:
            return int(files.read_json_dictionary(os.path.join(self.directory, _DONE))["epochs"])
        except (ValueError, LookupError, TypeError, OverflowError):
            return 0


def _checked(path: str) -> dict[str, Any]:
    """The manifest's content of a snapshot whose files are what was written."""
    manifest = files.read_json_dictionary(os.path.join(path, _MANIFEST))
    content, sums = manifest["content"], manifest["files"]
    if manifest["sum"] != _sum_of_content(content, sums):
        raise InputError(f"{_MANIFEST} is not what was written.")
    for name, expected in sums.items():
        if _sum_of(os.path.join(path, name)) != expected:
            raise InputError(f"{name} is not what was written.")
    if not os.path.basename(path) == f"step-{content['step']:010d}":
        raise InputError(f"it says that it is of step {content['step']}.")
    return dict(content)


def _sum_of_content(content: Any, sums: Any) -> str:
    return hashlib.sha256(json.dumps([content, sums], sort_keys=True).encode()).hexdigest()


def _sum_of(path: str) -> str:
    with files.open_regular(path, None) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: str) -> None:
    """Makes a folder's files and names last through a crash of the machine."""
    for name in os.listdir(path):
        whole = os.path.join(path, name)
        if os.path.isfile(whole):
            with open(whole, "rb") as file:
                os.fsync(file.fileno())
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
