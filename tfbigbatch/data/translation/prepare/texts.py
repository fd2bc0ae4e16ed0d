"""Parallel texts: files with a sentence a line, the translation in the same line of another file.

Lines end at line feeds alone: the other characters that Unicode calls line ends lie within sentences of the WMT
corpora, and would put the rest of a file out of step.
"""

import dataclasses
import gzip
import hashlib
import itertools
import os
import zlib

import numpy as np

from tfbigbatch.errors import InputError

# Lines of a grain: what a text is cut into shards by.
GRAIN = 1000


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """What was found in a file.

    Attributes:
      lines: how many.
      bytes: unpacked.
      places: int64 [grains], the byte of the unpacked file where each GRAIN of lines begins.
      sha256: of the unpacked file.
    """

    lines: int
    bytes: int
    places: np.ndarray
    sha256: str


def opened(path):
    """A file, unpacked, to be read as bytes."""
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def size(path):
    """The bytes of a file, as it is packed.

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


def scan(path, tick):
    """Goes through a file; gives its Scan.

    Args:
      path: of a text, perhaps packed as .gz.
      tick: called after each GRAIN of lines.

    Raises:
      ValueError: it cannot be read or is empty, or a line is not UTF-8.
    """
    digest, places, position, number = hashlib.sha256(), [], 0, 0
    for number, line in enumerate(_lines(path, 0), 1):
        if (number - 1) % GRAIN == 0:
            places.append(position)
            tick()
        _decoded(line, path, number)
        digest.update(line)
        position += len(line)
    if not number:
        raise InputError(f"{path} is empty. Expected a text with a sentence a line.")
    return Scan(number, position, np.array(places, np.int64), digest.hexdigest())


def lines(path, offset=0, first=1, count=None):
    """Some lines of a file, with their ends.

    Args:
      path: of a text, perhaps packed as .gz.
      offset: the byte of the unpacked file where they begin.
      first: the number of the first one, for errors.
      count: how many; None for all.

    Raises:
      ValueError: the file cannot be read, or a line is not UTF-8.
    """
    for number, line in enumerate(itertools.islice(_lines(path, offset), count), first):
        yield _decoded(line, path, number)


def check_aligned(source, target, scans):
    """Raises where two files do not have as many lines.

    Args:
      source, target: their paths.
      scans: dictionary from paths to Scans.

    Raises:
      ValueError: they do not.
    """
    of_source, of_target = scans[source].lines, scans[target].lines
    if of_source != of_target:
        raise InputError(
            f"{source} has {of_source:,} lines, {target} has {of_target:,}: they are not parallel. Expected a sentence "
            "a line, and its translation in the same line of the other file; fetch or make the files again."
        )


def copy(paths, to):
    """Writes the unpacked files one after the other into an open binary file; each ends in a line end."""
    for path in paths:
        line = b"\n"
        for line in _lines(path, 0):
            to.write(line)
        if not line.endswith(b"\n"):
            to.write(b"\n")


def _lines(path, offset):
    try:
        with opened(path) as file:
            file.seek(offset)
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path} cannot be read: {reason}. Fetch or make the file again.") from None


def _decoded(line, path, number):
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}, is not UTF-8 ({error.reason}, byte {error.start} of the line). Convert the text, "
            "for instance: iconv -f latin1 -t utf-8"
        ) from None
