"""Text files as data: UTF-8, with or without a byte order mark; lines end at line feeds.

A mark before the first character would hide the layout of a file, or be a part of its first word. UTF-16 decodes to
nothing that makes sense, and often without an error, so it is refused by its beginning.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from tfbigbatch.errors import InputError

_LOOKED_AT = 1 << 16
# UTF-32's first: its little-endian mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_LONE_RETURN = re.compile(rb"\r[^\r\n]")


def skip_mark(file: BinaryIO, where: str) -> int:
    """Moves a file from its beginning behind its byte order mark; returns the mark's bytes: 3, or 0 without one.

    Args:
      file: open for reading bytes, at its beginning; seekable.
      where: the file's path, for errors.

    Raises:
      ValueError: it is UTF-16 or UTF-32, or its lines end in carriage returns alone.
    """
    beginning = file.read(_LOOKED_AT)
    _check(beginning, where)
    size = len(codecs.BOM_UTF8) if beginning.startswith(codecs.BOM_UTF8) else 0
    file.seek(size)
    return size


def decoded(content: bytes, where: str) -> str:
    """The text of a whole file, without its byte order mark; line ends stay as they are.

    Args:
      content: the file's bytes.
      where: its path, for errors.

    Raises:
      ValueError: it is not UTF-8, or its lines end in carriage returns alone.
    """
    _check(content[:_LOOKED_AT], where)
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} {not_utf8(error, 'file')}") from None


def not_utf8(error: UnicodeDecodeError, of: str) -> str:
    """What is wrong with a 'line' or 'file' that UTF-8 does not decode, and what to do: to follow its path."""
    return (
        f"is not UTF-8 ({error.reason}, byte {error.start} of the {of}). Convert the text, for instance: "
        "iconv -f latin1 -t utf-8 FILE > NEW"
    )


def _check(beginning: bytes, where: str) -> None:
    found = _wide_encoding(beginning)
    if found:
        raise InputError(
            f"{where} is {found}; expected UTF-8. Convert the text: iconv -f {found.lower()} -t utf-8 FILE > NEW"
        )
    if b"\n" not in beginning and _LONE_RETURN.search(beginning):
        raise InputError(
            f"{where} has lines that end in carriage returns alone; expected line feeds. Convert the text: "
            "tr '\\r' '\\n' < FILE > NEW"
        )


def _wide_encoding(beginning: bytes) -> str | None:
    """UTF-16 or UTF-32, as iconv names them, by the mark or the zero bytes of a text; None for another encoding."""
    for mark, name in _MARKS:
        if beginning.startswith(mark):
            return name
    # Without a mark: a letter of UTF-16 has one zero byte, of UTF-32 two or three; a text of UTF-8 has hardly any.
    zeros = [beginning[place::4].count(0) for place in range(4)]
    if sum(zeros) * 4 <= len(beginning):
        return None
    name = "UTF-32" if sum(zeros) * 8 > len(beginning) * 5 else "UTF-16"
    return f"{name}{'LE' if zeros[3] > zeros[0] else 'BE'}"
