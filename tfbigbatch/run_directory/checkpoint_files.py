"""The checkpoint files of a run, and those of its best evaluation in the folder `best`.

They are found by listing the folder: TensorFlow's list of them may be lost or damaged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.utils.files import check_regular, reading_errors, writing_errors

NAME = "step"
AVERAGES = "averages"
"""Name, in a checkpoint, of the averages of the network's trainable variables, by path; see `use_ema`."""

# What TensorFlow reads: the files of checkpoints, and the list of them.
_READ = re.compile(rf"{NAME}-\d+\.(index|data-.*)$|checkpoint$")
_INDEX = re.compile(rf"{NAME}-(\d+)\.index$")
_SET_ASIDE = "damaged."


def paths(directory: str) -> list[str]:
    """The checkpoints in a folder, newest first; an interrupted save has no index and is not one.

    Raises:
      ValueError: a file of one is a pipe or a device, which TensorFlow would read without end.
    """
    names = os.listdir(directory) if os.path.isdir(directory) else []
    for name in names:
        if _READ.match(name):
            check(os.path.join(directory, name))
    steps = [int(found.group(1)) for found in map(_INDEX.match, names) if found]
    return [path_of(directory, step) for step in sorted(steps, reverse=True)]


def check(path: str) -> None:
    """Checks a file that TensorFlow is to read; one that is gone by now, or a folder, is to TensorFlow a damaged one.

    Raises:
      ValueError: it is a pipe or a device.
    """
    with reading_errors(path), contextlib.suppress(FileNotFoundError):
        if not os.path.isdir(path):
            check_regular(path)


def check_all(prefix: str) -> None:
    """Checks the files of a checkpoint, by its path without their endings; see `check`."""
    for path in glob.glob(f"{glob.escape(prefix)}.*"):
        check(path)


def path_of(folder: str, step: int) -> str:
    """The checkpoint of a step in a folder, without the endings of its files."""
    return os.path.join(folder, f"{NAME}-{step}")


def step_of(path: str) -> int:
    """The step of a checkpoint."""
    return int(path.rpartition("-")[2])


def steps(folder: str) -> list[int]:
    """The steps of the checkpoints in a folder, newest first."""
    return [step_of(path) for path in paths(folder)]


def set_aside(path: str) -> str:
    """Renames the files of a damaged checkpoint, and returns the new path."""
    directory, name = os.path.split(path)
    with writing_errors(directory):
        for file in glob.glob(f"{glob.escape(path)}.*"):
            os.replace(file, os.path.join(directory, _SET_ASIDE + os.path.basename(file)))
    return os.path.join(directory, _SET_ASIDE + name)


def remove(checkpoint: str) -> None:
    """Removes a checkpoint, its index first: without it the files are none."""
    files = glob.glob(f"{glob.escape(checkpoint)}.*")
    for file in sorted(files, key=lambda file: not file.endswith(".index")):
        os.remove(file)


def left_over(directory: str) -> list[str]:
    """Sorted names of files, in a folder without a checkpoint, that show that there were some.

    An interrupted first save leaves data without an index, and does not count.
    """
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return names if "checkpoint" in names or any(name.startswith(_SET_ASIDE) for name in names) else []


# ---- The folder `best` ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Best:
    """An evaluation.

    Attributes:
      step: after which it was made.
      value: of the target metric.
    """

    step: int
    value: float


def is_better(value: float | None, best: Best | None, metric: Metric) -> bool:
    """True if a value beats the best before it: a tie does not, and NaN never does."""
    if value is None or not math.isfinite(value):
        return False
    return best is None or metric.order(value) < metric.order(best.value)


def best_row(rows: Iterable[Mapping[str, Any]], metric: Metric, among: Iterable[int] | None = None) -> Best | None:
    """The best evaluation in rows of metrics.jsonl; the earlier of two that are equal.

    Args:
      rows: in the order of their steps.
      metric: that is compared.
      among: None, or the steps to choose from.
    """
    best = None
    for row in rows:
        value = row.get(metric.name)
        if row["split"] == "eval" and isinstance(value, (int, float)) and (among is None or row["step"] in among):
            if is_better(value, best, metric):
                best = Best(row["step"], float(value))
    return best


def add(checkpoint: str, folder: str) -> None:
    """Puts a checkpoint into the folder, by hard links where the file system has them and by copies elsewhere.

    The index is last: without it the files are no checkpoint, so that a crash leaves the folder as it was.

    Args:
      checkpoint: its path, without the endings of its files.
      folder: created where it is missing.
    """
    with writing_errors(folder):
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, os.path.basename(checkpoint))
        remove(target)
        files = sorted(glob.glob(f"{glob.escape(checkpoint)}.*"), key=lambda file: file.endswith(".index"))
        for file in files:
            _link(file, os.path.join(folder, os.path.basename(file)))


def drop(folder: str, after: int) -> None:
    """Removes the checkpoints after a step, and what an interrupted save left."""
    whole = steps(folder)
    kept = {f"{NAME}-{step}" for step in whole if step <= after}
    with writing_errors(folder):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        # Indices first: what is left without one is no checkpoint.
        for name in sorted(names, key=lambda name: not name.endswith(".index")):
            path = os.path.join(folder, name)
            if name.partition(".")[0] in kept or not name.startswith(NAME):
                continue
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.remove(path)


def prune(folder: str, checkpoints: Sequence[int]) -> None:
    """Removes the checkpoints that were the best once.

    The run may still be resumed before its best step, from a checkpoint that is kept: the best up to that one stays,
    too. Where each evaluated step is saved anyway the files of both are the same on disk.

    Args:
      folder: of the best.
      checkpoints: steps of the checkpoints that the run may be resumed from.
    """
    kept = steps(folder)
    needed = set(kept[:1])
    for checkpoint in checkpoints:
        needed.update([step for step in kept if step <= checkpoint][:1])
    with writing_errors(folder):
        for step in set(kept) - needed:
            remove(path_of(folder, step))


def _link(file: str, target: str) -> None:
    try:
        os.link(file, target)
    except OSError:
        # A file system without hard links. The new name is given to a whole file only.
        shutil.copyfile(file, f"{target}.part")
        os.replace(f"{target}.part", target)
