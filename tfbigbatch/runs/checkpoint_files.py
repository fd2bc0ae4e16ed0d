"""The checkpoint files of a run, found by listing the folder: TensorFlow's list of them may be lost or damaged."""

from __future__ import annotations

import contextlib
import glob
import os
import re

from tfbigbatch.utils.files import check_regular, reading_errors, writing_errors

NAME = "step"
AVERAGES = "averages"
"""Name, in a checkpoint, of the averages of the network's trainable variables, in their order; see `use_ema`."""

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
    return [os.path.join(directory, f"{NAME}-{step}") for step in sorted(steps, reverse=True)]


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


def step_of(path: str) -> int:
    """The step of a checkpoint."""
    return int(path.rpartition("-")[2])


def set_aside(path: str) -> str:
    """Renames the files of a damaged checkpoint, and returns the new path."""
    directory, name = os.path.split(path)
    with writing_errors(directory):
        for file in glob.glob(f"{glob.escape(path)}.*"):
            os.replace(file, os.path.join(directory, _SET_ASIDE + os.path.basename(file)))
    return os.path.join(directory, _SET_ASIDE + name)


def left_over(directory: str) -> list[str]:
    """Sorted names of files, in a folder without a checkpoint, that show that there were some.

    An interrupted first save leaves data without an index, and does not count.
    """
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return names if "checkpoint" in names or any(name.startswith(_SET_ASIDE) for name in names) else []
