"""The folder `best` of a run: the checkpoint with the best target metric, beside the newest ones."""

from __future__ import annotations

import dataclasses
import glob
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.metric import Metric
from tfbigbatch.utils.files import writing_errors


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


def steps(folder: str) -> list[int]:
    """The steps of the checkpoints in a folder, newest first."""
    return [checkpoint_files.step_of(path) for path in checkpoint_files.paths(folder)]


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
        _remove(target)
        files = sorted(glob.glob(f"{glob.escape(checkpoint)}.*"), key=lambda file: file.endswith(".index"))
        for file in files:
            _link(file, os.path.join(folder, os.path.basename(file)))


def drop(folder: str, after: int) -> None:
    """Removes the checkpoints after a step, and what an interrupted save left."""
    whole = steps(folder)
    kept = {f"{checkpoint_files.NAME}-{step}" for step in whole if step <= after}
    with writing_errors(folder):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        # Indices first: what is left without one is no checkpoint.
        for name in sorted(names, key=lambda name: not name.endswith(".index")):
            path = os.path.join(folder, name)
            if name.partition(".")[0] in kept or not name.startswith(checkpoint_files.NAME):
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
            _remove(os.path.join(folder, f"{checkpoint_files.NAME}-{step}"))


def _remove(checkpoint: str) -> None:
    files = glob.glob(f"{glob.escape(checkpoint)}.*")
    for file in sorted(files, key=lambda file: not file.endswith(".index")):
        os.remove(file)


def _link(file: str, target: str) -> None:
    try:
        os.link(file, target)
    except OSError:
        # A file system without hard links. The new name is given to a whole file only.
        shutil.copyfile(file, f"{target}.part")
        os.replace(f"{target}.part", target)
