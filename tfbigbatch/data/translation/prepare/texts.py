"""Parallel texts: files with a sentence per line, and its translation in the same line of another file.

Lines end at line feeds only: WMT's sentences contain other characters that Unicode counts as line ends, and splitting
there would misalign the rest of a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import itertools
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, cast

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


def opened(path: str) -> BinaryIO:
    """A text opened for reading bytes, decompressed if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb"))


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
    digest, offsets, position, number = hashlib.sha256(), [], _mark(path), 0
    for number, line in enumerate(_lines(path, position), 1):
        if (number - 1) % GRAIN == 0:
            offsets.append(position)
            tick()
        _decoded(line, path, number)
        digest.update(line)
        position += len(line)
    if not number:
        raise InputError(f"{path} is empty. Expected a text with a sentence a line.")
    return Scan(number, position, np.array(offsets, np.int64), digest.hexdigest())


def lines(path: str, offset: int = 0, first: int = 1, count: int | None = None) -> Iterator[str]:
    """Lines of a text, with their line ends.

    Args:
      path: of the text, perhaps .gz.
      offset: byte of the decompressed file at which to begin.
      first: number of the first line, for errors.
      count: number of lines; None: to the end.

    Raises:
      ValueError: the file cannot be read, or a line is not UTF-8.
    """
    for number, line in enumerate(itertools.islice(_lines(path, offset), count), first):
        yield _decoded(line, path, number)


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
        for line in _lines(path, 0):
            to.write(line)
        if not line.endswith(b"\n"):
            to.write(b"\n")


def _lines(path: str, offset: int) -> Iterator[bytes]:
    """The lines from a byte on; from 0: behind the byte order mark, if there is one."""
    with _reading_errors(path), opened(path) as file:
        if offset:
            file.seek(offset)
        else:
            text_files.skip_mark(file, path)
        yield from file


def _mark(path: str) -> int:
    """The bytes of a text's byte order mark."""
    with _reading_errors(path), opened(path) as file:
        return text_files.skip_mark(file, path)


@contextlib.contextmanager
def _reading_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path} cannot be read: {reason}. Fetch or make the file again.") from None


def _decoded(line: bytes, path: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}, {text_files.not_utf8(error, 'line')}") from None
