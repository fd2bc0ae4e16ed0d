"""What the commands that prepare a dataset share: the check of their options, and one split written at once."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write


def check_options(options: object, expected: dict[str, tuple[bool, str]]) -> None:
    """Checks options that are flags of the command.

    Args:
      options: has an attribute for each name.
      expected: for each name whether its value is valid, and which values are.

    Raises:
      ValueError: one is not valid.
    """
    for name, (valid, words) in expected.items():
        if not valid:
            raise InputError(f"--{name}={getattr(options, name)}: expected {words}.")


def write_split(folder: str, name: str, examples: Iterable[bytes]) -> Split:
    """Writes serialized examples into one TFRecord file of a folder, for fake data; returns the Split."""
    frames = list(map(tfrecord.framed, examples))
    path = os.path.join(folder, f"{name}-00000-of-00001")
    atomic_write(path, lambda file: file.write(b"".join(frames)))
    ends = np.cumsum([len(frame) for frame in frames])
    return Split.of_files(name, [path], [np.concatenate([[0], ends[:-1]])], ends[-1:])
