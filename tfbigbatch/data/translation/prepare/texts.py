"""Parallel texts: files with a sentence per line, and its translation in the same line of another file."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.errors import InputError

# Lines in a grain, the unit of division into shards.
GRAIN = 1000


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """The size and layout of a text.

    Attributes:
      lines: number of lines.
      bytes: decompressed size.
      offsets: int64 [grains], byte of the decompressed file at which each grain begins.
      sha256: of the decompressed lines, without a byte order mark.
    """

    lines: int
    bytes: int
    offsets: np.ndarray
    sha256: str


def size(path: str) -> int:
    """The size of a file on disk, in bytes.

    Raises:
      ValueError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}. Name the files as --source_files=a.en,b.en.gz "
            "--target_files=a.de,b.de.gz."
        ) from None


def scan(path: str, tick: Callable[[], None]) -> Scan:
    """Reads a text once.

    Args:
      path: of the text, perhaps .gz.
      tick: called for each grain.

    Raises:
      ValueError: it cannot be read, is empty or UTF-16, or a line is not UTF-8.
    """
    with text_files.opened(path) as file:
        position = text_files.skip_mark(file, path)
        digest, offsets, number = hashlib.sha256(), [], 0
        for number, line in enumerate(file, 1):
            if (number - 1) % GRAIN == 0:
                offsets.append(position)
                tick()
            text_files.decoded_line(line, path, number)
            digest.update(line)
            position += len(line)
    if not number:
        raise InputError(f"{path} is empty. Expected a text with a sentence a line.")
    return Scan(number, position, np.array(offsets, np.int64), digest.hexdigest())


def check_aligned(source: str, target: str, scans: Mapping[str, Scan]) -> None:
    """Checks that two texts have the same number of lines.

    Raises:
      ValueError: they do not.
    """
    of_source, of_target = scans[source].lines, scans[target].lines
    if of_source != of_target:
        raise InputError(
            f"{source} has {of_source:,} lines, {target} has {of_target:,}: they are not parallel. Expected a sentence "
            "a line, and its translation in the same line of the other file; fetch or make the files again."
        )


def copy(paths: Sequence[str], to: BinaryIO) -> None:
    """Concatenates decompressed texts into an open file, each terminated by a line end."""
    for path in paths:
        line = b"\n"
        for line in text_files.raw_lines(path):
            to.write(line)
        if not line.endswith(b"\n"):
            to.write(b"\n")
