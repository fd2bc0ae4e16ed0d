"""The outline of every preparation: scan, split, write shards, manifest; the same command resumes.

A subclass of `Preparation` says what the source holds, plans tasks (shards to write, or TFRecords to index in place),
and writes the manifest from their results. `prepare` does the rest: one command at a time in a folder, a fingerprint of
the source and the options, a pool of processes, a progress bar.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import filelock

from tfbigbatch.data.records import manifest, shards
from tfbigbatch.data.records.manifest import MANIFEST
from tfbigbatch.data.records.shards import PROGRESS, Shard
from tfbigbatch.errors import InputError
from tfbigbatch.utils import processes as workers
from tfbigbatch.utils.files import read_json_dictionary, write_text, writing_errors

HIDDEN = "hidden, or of a folder __MACOSX"
_FINGERPRINT, _LOCK = "plan.json", "lock"


class Preparation(abc.ABC):
    """A dataset to prepare.

    Attributes:
      kind: of the dataset.
      fingerprint: of `fingerprint`.
      unit: what a tick of the progress bar counts.
      load: function that reads and checks a prepared folder.
    """

    load: Callable[[str], Any]
    kind: manifest.Kind
    fingerprint: dict[str, Any]
    unit = "file"

    @abc.abstractmethod
    def tasks(self, folder: str, say: Callable[[str], object]) -> Sequence[Any]:
        """The Shards to write, or paths to index; after what is to be scanned or trained before.

        Args:
          folder: the prepared folder, whose `progress_path` may keep what is to be found again after a stop.
          say: called with lines about what was found.

        Raises:
          ValueError: the source cannot be used; the folder then stays as it is.
        """

    @property
    @abc.abstractmethod
    def function(self) -> Callable[[Any, Callable[[], None]], Any]:
        """The function of (task, tick) that gives a task's result; importable, since other processes call it."""

    def size(self, task: Any) -> int:
        """The number of times that `function` calls tick for a task."""
        return 1

    @abc.abstractmethod
    def save(self, folder: str, results: dict[Any, Any]) -> None:
        """Writes the manifest from the results by task, in the order of `tasks`.

        Raises:
          ValueError: the results cannot be used, or the folder cannot be written.
        """


def prepare(
    job: Preparation,
    folder: str,
    *,
    processes: int,
    say: Callable[[str], object] = lambda line: None,
) -> tuple[dict[str, Any], bool]:
    """Makes a prepared folder, unless it is complete already.

    Args:
      job: Preparation.
      folder: created if it does not exist.
      processes: how many at once.
      say: called with lines on what was found.

    Returns:
      (the content of manifest.json; whether the folder was complete already).

    Raises:
      ValueError: the source cannot be used; the folder holds something else, is locked or cannot be written.
      Preempted: SIGINT or SIGTERM was received; the same call resumes.
    """
    with _lock(folder):
        is_claimed = _is_claimed(folder, job.fingerprint)
        if is_claimed:
            with contextlib.suppress(InputError):
                job.load(folder)
                return manifest.read(folder, job.kind) or {}, True
        tasks = job.tasks(folder, say)
        if not is_claimed:
            _claim(folder, job.fingerprint, [task.path for task in tasks if isinstance(task, Shard)])
        results = run(job.function, tasks, size=job.size, unit=job.unit, processes=processes)
        job.save(folder, results)
        return manifest.read(folder, job.kind) or {}, False


def run(
    function: Callable[[Any, Callable[[], None]], Any],
    tasks: Sequence[Any],
    *,
    unit: str,
    processes: int,
    size: Callable[[Any], int] | None = None,
) -> dict[Any, Any]:
    """The results of tasks, several at once, with a progress bar; shards that a command before wrote are left.

    Args:
      function: of (task, tick), where tick is to be called for each unit; importable if `processes` > 1.
      tasks: Shards, or others that are hashable; picklable if `processes` > 1.
      unit: what a tick counts.
      processes: how many at once.
      size: the number of ticks of a task; None for an unknown total.

    Returns:
      Results by task, in the order of `tasks`.

    Raises:
      ValueError: a process died, or `function` raised it.
      Preempted: SIGINT or SIGTERM was received.
    """
    results = {task: shards.done(task) if isinstance(task, Shard) else None for task in tasks}
    missing = [task for task, result in results.items() if result is None]
    total, left = (None, 0) if size is None else (sum(map(size, tasks)), sum(map(size, missing)))
    with workers.progress_bar(total, (total or 0) - left, unit) as progress:
        workers.run_tasks(function, missing, processes=processes, ended=results.__setitem__, progress=progress)
    return results


def fingerprint(
    source: str, layout: str, options: dict[str, Any], contents: Any, rows: Iterable[tuple[Any, ...]]
) -> dict[str, Any]:
    """The fingerprint of all that a result depends on; not of where the source lies.

    Args:
      source, layout: the source's path, and what it is in words.
      options, contents: what the result depends on beside the source, flags and the rest; JSON.
      rows: one for each file of the source: its name, its size and the like.

    Returns:
      Dictionary with 'digest', 'source' (its name), 'layout' and 'options'.
    """
    digest = hashlib.sha256(json.dumps([layout, options, contents], sort_keys=True).encode())
    for row in rows:
        digest.update("\0".join(map(str, row)).encode(errors="surrogateescape") + b"\n")
    name = os.path.basename(os.path.abspath(source))
    return {"digest": digest.hexdigest(), "source": name, "layout": layout, "options": options}


def progress_path(folder: str, name: str) -> str:
    """The path of a file of a prepared folder's progress."""
    return os.path.join(folder, PROGRESS, name)


def option(default: Any, words: str) -> Any:
    """The field of a dataclass of options that is a flag of the command, with the flag's help."""
    return dataclasses.field(default=default, metadata={"help": words})


def check_options(options: object, expected: dict[str, tuple[bool, str]]) -> None:
    """Checks options that are flags of the command: for each name whether its value is valid, and which values are.

    Raises:
      ValueError: one is not valid.
    """
    for name, (valid, words) in expected.items():
        if not valid:
            raise InputError(f"--{name}={getattr(options, name)}: expected {words}.")


def account(name: str, unit: str, read: int, left_out: Mapping[str, int]) -> str:
    """A line on a split, with which each command ends: how many 'images' or the like were read, used and left out."""
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
    said = f"{name}, {unit}: {read:,} read, {read - sum(left_out.values()):,} used"
    return f"{said}; left out: {reasons}" if reasons else said


def check_outside(source: str, folder: str) -> None:
    """Raises ValueError for a prepared folder in its source."""
    outer, inner = os.path.realpath(source), os.path.realpath(folder)
    if os.path.commonpath([outer, inner]) == outer:
        raise InputError(
            f"--output_dir={folder} lies in --source={source}: what is prepared would be taken for a part of the "
            "source the next time. Choose a folder outside of it."
        )


def is_hidden(name: str) -> bool:
    """True for a path within a source that is not meant as data: hidden, or of what macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


@contextlib.contextmanager
def _lock(folder: str) -> Iterator[None]:
    """Creates a folder and its progress folder, and locks them for one command."""
    with contextlib.ExitStack() as stack:
        with writing_errors(f"--output_dir={folder}"):
            os.makedirs(os.path.join(folder, PROGRESS), exist_ok=True)
            try:
                stack.enter_context(filelock.FileLock(progress_path(folder, _LOCK), timeout=0))
            except filelock.Timeout:
                raise InputError(f"Another command prepares --output_dir={folder}. Wait for it, or stop it.") from None
        yield


def _is_claimed(folder: str, fingerprint: dict[str, Any]) -> bool:
    """Whether a locked folder is built from a fingerprint already; False for a new one.

    Raises:
      ValueError: it is built from another one.
    """
    path = progress_path(folder, _FINGERPRINT)
    if not os.path.exists(path):
        return False
    before = read_json_dictionary(path)
    if before.get("digest") != fingerprint["digest"]:
        raise InputError(
            f"--output_dir={folder} is for what is prepared from another source, or with the options "
            f"{before.get('options')}. Choose another folder."
        )
    return True


def _claim(folder: str, fingerprint: dict[str, Any], writes: Iterable[str]) -> None:
    """Marks a locked folder as built from a fingerprint.

    Raises:
      ValueError: it holds other files with the names of `writes`, a manifest or an index, or cannot be written.
    """
    with writing_errors(f"--output_dir={folder}"):
        indexes = glob.glob(manifest.index_path(glob.escape(folder), "*"))
        strange = [path for path in (os.path.join(folder, MANIFEST), *writes) if os.path.exists(path)] + indexes
        if strange:
            raise InputError(
                f"--output_dir={folder} holds files that this command did not make, such as {strange[0]}. Choose "
                "another folder."
            )
        write_text(progress_path(folder, _FINGERPRINT), json.dumps(fingerprint, indent=1) + "\n")
