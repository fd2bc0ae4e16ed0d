"""Text files as data: UTF-8, with or without a byte order mark, perhaps packed; lines end at line feeds only.

Texts contain other characters that Unicode counts as line ends; splitting there would misalign the rest of a file. A
mark before the first character would hide the layout of a file, or be a part of its first word. UTF-16 decodes to
nothing that makes sense, and often without an error, so it is refused by its beginning.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import itertools
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import read_bytes, reading_errors

_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_LOOKED_AT = 1 << 16


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A context with a file for reading bytes, decompressed by its extension.

    Raises:
      ValueError: it cannot be opened, or read within the context.
    """
    try:
        with _PACKED.get(os.path.splitext(path)[1], open)(path, "rb") as file:
            yield cast(BinaryIO, file)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path} cannot be read: {reason}. Fetch or make the file again.") from None


def skip_mark(file: BinaryIO, where: str) -> int:
    """Moves a file from its beginning behind its byte order mark; returns the mark's bytes: 3, or 0 without one.

    Args:
      file: open for reading bytes, at its beginning; seekable.
      where: the file's path, for errors.

    Raises:
      ValueError: it is UTF-16 or UTF-32.
    """
    beginning = file.read(_LOOKED_AT)
    _check(beginning, where)
    size = len(codecs.BOM_UTF8) if beginning.startswith(codecs.BOM_UTF8) else 0
    file.seek(size)
    return size


def lines(path: str, offset: int = 0, first: int = 1, count: int | None = None) -> Iterator[str]:
    """The lines of a text, with their ends, without its byte order mark.

    Args:
      path: of the text.
      offset: byte of the decompressed file at which to begin.
      first: number of the first line, for errors.
      count: number of lines; None: to the end.

    Raises:
      ValueError: the file cannot be read, or a line is not UTF-8.
    """
    with opened(path) as file:
        if offset:
            file.seek(offset)
        else:
            skip_mark(file, path)
        for number, line in enumerate(itertools.islice(file, count), first):
            yield decoded_line(line, path, number)


def decoded_line(line: bytes, path: str, number: int) -> str:
    """The text of a line; raises ValueError where it is not UTF-8."""
    return _decoded(line, f"{path}, line {number},", "line")


def read(path: str) -> str:
    """The text of a regular file, as `decoded`; raises ValueError where it cannot be read, or is not UTF-8."""
    with reading_errors(path):
        content = read_bytes(path)
    return decoded(content, path)


def decoded(content: bytes, where: str) -> str:
    """The text of a whole file, without its byte order mark; line ends stay as they are.

    Args:
      content: the file's bytes.
      where: its path, for errors.

    Raises:
      ValueError: it is not UTF-8.
    """
    _check(content[:_LOOKED_AT], where)
    return _decoded(content.removeprefix(codecs.BOM_UTF8), where, "file")


def _decoded(content: bytes, where: str, of: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8 ({error.reason}, byte {error.start} of the {of}). Convert the text, for instance: "
            "iconv -f latin1 -t utf-8 FILE > NEW"
        ) from None


def _check(beginning: bytes, where: str) -> None:
    # UTF-32's mark begins with UTF-16's, or with zeros. Without a mark, letters have a zero byte or more; a text of
    # UTF-8 has hardly any.
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or beginning.count(0) * 4 > len(beginning):
        raise InputError(
            f"{where} is UTF-16 or UTF-32; expected UTF-8. Convert the text: iconv -f utf-16 -t utf-8 FILE > NEW, or "
            "utf-16le, utf-32, ..."
        )
