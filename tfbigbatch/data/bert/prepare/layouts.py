"""Text layouts of a corpus: the byte ranges of its documents, and their sentences.

Documents are byte ranges, so that a corpus is scanned once without being held in memory, and any document can be read
by itself.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator

from tfbigbatch.data.bert.prepare import sentences
from tfbigbatch.errors import InputError

_HEADING = re.compile(rb"\s?= [^=].*[^=] =\s*|\s?= [^=] =\s*")
_ANY_HEADING = re.compile(r"\s*(= )+[^=].* =\s*|\s*(= )+[^=] =\s*")
_TITLE = re.compile(r'\s*<doc [^>]*title="([^"]*)"')
# Half of a character of two UTF-16 units, as JSON may escape it; UTF-8 cannot hold it.
_ESCAPED_HALF, _HALF = re.compile(r"\\u[dD][89a-fA-F]"), re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout of text files.

    Attributes:
      name: for messages.
      split: function of a file's lines, bytes with line ends; yields for each line True if a document begins there,
        None if it is outside of documents, and False if it continues one.
      sentences: function of (a document's text, whether to split paragraphs); returns its sentences.
    """

    name: str
    split: Callable[[Iterable[bytes]], Iterator[bool | None]]
    sentences: Callable[[str, bool], list[str]]


def layout_of(line: bytes) -> Layout:
    """The layout of a file with this first non-blank line.

    Raises:
      ValueError: it is JSON, but has no 'text', or is an array.
    """
    if line.lstrip().startswith(b"<doc "):
        return LAYOUTS["wikipedia"]
    if line.lstrip().startswith(b"{"):
        _text_of(line)
        return LAYOUTS["json"]
    if line.strip() == b"[" or re.match(rb"\s*\[\s*\{", line):
        raise InputError("It is one array of JSON; expected a line for each document: jq -c '.[]' FILE > NEW.jsonl")
    return LAYOUTS["wikitext" if _HEADING.fullmatch(line) else "plain"]


def documents_of(lines: Iterable[bytes], layout: Layout) -> Iterator[tuple[int, int]]:
    """(offset, length) in bytes of each document of a file, from its lines with line ends."""
    position, end = 0, 0
    begin: int | None = None
    ahead: list[int] = []

    def seen() -> Iterator[bytes]:
        for line in lines:
            ahead.append(len(line))
            yield line

    for begins in layout.split(seen()):
        size = ahead.pop()
        if begins and begin is not None:
            yield begin, end - begin
            begin = None
        if begins is not None:
            begin = position if begin is None else begin
            end = position + size
        elif begin is not None:
            yield begin, end - begin
            begin = None
        position += size
    if begin is not None:
        yield begin, end - begin


def is_blank(line: bytes) -> bool:
    """Whether a line is only white space, Unicode's included."""
    bare = line.strip()
    return not bare or (bare[0] > 127 and not bare.decode("utf-8", "ignore").strip())


def _split_plain(lines: Iterable[bytes]) -> Iterator[bool | None]:
    """One sentence per line, blank lines between documents."""
    inside = False
    for line in lines:
        if is_blank(line):
            inside = False
            yield None
        else:
            yield not inside
            inside = True


def _split_wikitext(lines: Iterable[bytes]) -> Iterator[bool | None]:
    """A first-level heading begins a document; text before the first one is a document too."""
    inside, blank = False, True
    for line in lines:
        # A table row may look like a heading, but has no blank line before it.
        begins = not inside or (blank and _HEADING.fullmatch(line) is not None)
        blank = is_blank(line)
        if blank and not inside:
            yield None
        else:
            inside = True
            yield begins


def _split_wikipedia(lines: Iterable[bytes]) -> Iterator[bool | None]:
    """<doc ...> and </doc> delimit a document."""
    inside = False
    for line in lines:
        begins = line.lstrip().startswith(b"<doc ")
        inside = inside or begins
        if line.lstrip().startswith(b"</doc>"):
            inside = False
        yield begins if inside else None


def _split_json(lines: Iterable[bytes]) -> Iterator[bool | None]:
    for line in lines:
        yield None if is_blank(line) else True


def _plain_sentences(text: str, cut: bool) -> list[str]:
    return text.split("\n")


def _wikitext_sentences(text: str, cut: bool) -> list[str]:
    lines = [line for line in text.split("\n") if not _ANY_HEADING.fullmatch(line)]
    return sentences.of_paragraphs(lines) if cut else lines


def _wikipedia_sentences(text: str, cut: bool) -> list[str]:
    head, _, rest = text.partition("\n")
    title = _TITLE.match(head)
    lines = html.unescape(rest).split("\n")
    # The extractor repeats the title in the first line.
    if title and lines[0].strip() == html.unescape(title[1]).strip():
        lines = lines[1:]
    return sentences.of_paragraphs(lines) if cut else lines


def _json_sentences(text: str, cut: bool) -> list[str]:
    # The tokenizer drops the replacement character.
    lines = _HALF.sub("\ufffd", _text_of(text)).split("\n")
    return sentences.of_paragraphs(lines) if cut else lines


def has_half_characters(line: str) -> bool:
    """Whether the text of a line of JSON has half of a character."""
    return bool(_ESCAPED_HALF.search(line) and _HALF.search(_text_of(line)))


def _text_of(line: str | bytes) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise InputError(f'A line of JSON has no \'text\': {line[:60]!r}. Expected such as {{"text": "..."}} in each.')
    return text


LAYOUTS = {
    "plain": Layout("a sentence a line, blank lines between documents", _split_plain, _plain_sentences),
    "wikitext": Layout("WikiText's headings and paragraphs", _split_wikitext, _wikitext_sentences),
    "wikipedia": Layout("a Wikipedia extract of <doc> blocks", _split_wikipedia, _wikipedia_sentences),
    "json": Layout("JSON lines with a text each", _split_json, _json_sentences),
}
