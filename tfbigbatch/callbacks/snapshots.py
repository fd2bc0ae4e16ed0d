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
_KEPT = 2


class Snapshots:
    """The snapshots of one training, the newest two of them.

    A snapshot that is not what was written, or not all of it, is renamed to `damaged.step-...` and the one before it is
    read.

    Args:
      directory: folder of the snapshots.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._lock = FolderLock(directory)

    def make_directory(self) -> None:
        """Makes the directory, locks it until `release`, and removes what a killed process left half written.

        Raises:
          ValueError: another process trains with it, or it cannot be made.
        """
        # From this process: a `fit` that an error ended has not released it.
        self._lock.acquire(
            lambda holder: (
                f"ExactResume: another training writes to {self.directory}: {holder}. Wait until it has ended, or end "
                "it; or choose another directory."
            ),
            from_own=True,
        )
        for name in os.listdir(self.directory):
            if name.endswith((".part", ".old")):
                shutil.rmtree(os.path.join(self.directory, name), ignore_errors=True)

    def release(self) -> None:
        """Leaves the directory to other processes."""
        self._lock.release()

    def steps(self) -> list[int]:
        """The steps of the snapshots, newest first."""
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else []
        found = map(_NAME.fullmatch, names)
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def path(self, step: int) -> str:
        """The folder of a step's snapshot."""
        return os.path.join(self.directory, f"step-{step:010d}")

    def newest(self, warn: Callable[[str], None], renames: bool = True) -> dict[str, Any]:
        """The manifest of the newest whole snapshot, empty where there is no snapshot.

        Args:
          warn: called with a sentence for each snapshot that is damaged.
          renames: whether damaged ones are renamed.

        Raises:
          ValueError: all are damaged.
        """
        damaged: dict[str, Exception] = {}
        for path in map(self.path, self.steps()):
            try:
                content = _checked(path)
            # ValueError: a file's name with a zero in it. RecursionError: brackets nested thousands deep.
            except (ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError) as error:
                damaged[path] = error
                continue
            for wrong, why in damaged.items():
                warn(f"a damaged snapshot was set aside, and the one before it is used. {wrong}: {why}")
                if renames:
                    aside = os.path.join(self.directory, f"damaged.{os.path.basename(wrong)}")
                    shutil.rmtree(aside, ignore_errors=True)
                    os.replace(wrong, aside)
            return content
        if damaged:
            lines = "".join(f"\n  {wrong}: {why}" for wrong, why in damaged.items())
            raise InputError(
                f"ExactResume: every snapshot in {self.directory} is damaged:{lines}\nPut whole files back, or "
                "remove the directory to start from the beginning."
            )
        return {}

    @contextlib.contextmanager
    def writing(self, step: int, content: dict[str, Any]) -> Iterator[str]:
        """A context that gives the folder to write a step's files into; they are a snapshot where it ends well.

        Args:
          content: for the manifest, in values of JSON.

        Raises:
          ValueError: the files cannot be written; the snapshots before it stay.
        """
        whole = self.path(step)
        with files.atomic_folder(whole) as part:
            yield part
            content = {**content, "step": step}
            sums = {name: _sum_of(os.path.join(part, name)) for name in sorted(os.listdir(part))}
            _write_manifest(part, content, sums)
        for old in map(self.path, self.steps()[_KEPT:]):
            # Renamed first: half a snapshot must not look like a damaged one.
            with files.writing_errors(old):
                os.replace(old, f"{old}.old")
            shutil.rmtree(f"{old}.old", ignore_errors=True)

    def remove(self, step: int) -> None:
        """Removes a step's snapshot."""
        shutil.rmtree(self.path(step), ignore_errors=True)

    def note(self, **more: Any) -> None:
        """Adds to the manifest of the newest snapshot, where there is one."""
        for folder in map(self.path, self.steps()[:1]):
            manifest = files.read_json_dictionary(os.path.join(folder, _MANIFEST))
            _write_manifest(folder, {**manifest["content"], **more}, manifest["files"])


def _write_manifest(folder: str, content: dict[str, Any], sums: dict[str, str]) -> None:
    manifest = {"content": content, "files": sums, "sum": _sum_of_content(content, sums)}
    # The order of the history's names stays.
    files.write_text(os.path.join(folder, _MANIFEST), json.dumps(manifest, indent=1))


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
