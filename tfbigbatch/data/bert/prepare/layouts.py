"""Text layouts of a corpus: the byte ranges of its documents, and their sentences.

Documents are byte ranges, so that a corpus is scanned once without being held in memory, and any document can be read
by itself.

Paragraphs are split into sentences by rules: next-sentence prediction needs segments, not grammar. A sentence ends at
'.', '!' or '?' and closing quotes or brackets, before white space and a capital, a digit, or an opening quote or
bracket; not after a single capital ("J. Smith") or a common abbreviation. In tokenised text ("left . " Why") an
ambiguous quote belongs to the sentence before.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator

from tfbigbatch.errors import InputError

_HEADING = re.compile(rb"\s?= [^=].*[^=] =\s*|\s?= [^=] =\s*")
_ANY_HEADING = re.compile(r"\s*(= )+[^=].* =\s*|\s*(= )+[^=] =\s*")
_TITLE = re.compile(r'\s*<doc [^>]*title="([^"]*)"')
# Half of a character of two UTF-16 units, as JSON may escape it; UTF-8 cannot hold it.
_HALF = re.compile("[\ud800-\udfff]")
_END = re.compile(r"""[.!?]["'”’)\]]*( ["'”’)\]])*\s+(?=["'“‘(\[]?\s?[^\W_a-z])""")
_ABBREVIATED = re.compile(
    r"[\s(\"'](?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|vs|etc|cf|ca|al|vol|pp"
    r"|Fig|Inc|Ltd|Co|Corp|e\.g|i\.e|[A-Z](?:\.[A-Z])+)$"
)
# Longer than any abbreviation.
_LONGEST = 12


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout of text files.

    Attributes:
      name: for messages.
      place: function of (a line as bytes, True if it is blank, True if the line before is, True within a document);
        gives True if a document begins with the line, None if it is outside of documents, and False if it continues
        one.
      lines: function of a document's text; gives its sentences or paragraphs.
      has_paragraphs: True if these are paragraphs.
    """

    name: str
    place: Callable[[bytes, bool, bool, bool], bool | None]
    lines: Callable[[str], list[str]]
    has_paragraphs: bool = True

    def sentences(self, text: str, cut: bool) -> list[str]:
        """The sentences of a document; its paragraphs, where it has these, unless they are to be `cut`."""
        lines = self.lines(text)
        return [part for line in lines for part in _cut(line)] if cut and self.has_paragraphs else lines

    def documents(self, lines: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """(offset, length) in bytes of each document of a file, from its lines with line ends."""
        position, end, blank = 0, 0, True
        begin: int | None = None
        for line in lines:
            before, blank = blank, is_blank(line)
            place = self.place(line, blank, before, begin is not None)
            if begin is not None and place is not False:
                yield begin, end - begin
                begin = None
            if place is not None:
                begin = position if begin is None else begin
                end = position + len(line)
            position += len(line)
        if begin is not None:
            yield begin, end - begin


def layout_of(line: bytes) -> str:
    """The key in LAYOUTS of a file with this first non-blank line.

    Raises:
      ValueError: it is JSON, but has no 'text', or is an array.
    """
    if line.lstrip().startswith(b"<doc "):
        return "wikipedia"
    if line.lstrip().startswith(b"{"):
        _text_of(line)
        return "json"
    if line.strip() == b"[" or re.match(rb"\s*\[\s*\{", line):
        raise InputError("It is one array of JSON; expected a line for each document: jq -c '.[]' FILE > NEW.jsonl")
    return "wikitext" if _HEADING.fullmatch(line) else "plain"


def is_blank(line: bytes) -> bool:
    """True for a line of white space only, Unicode's included."""
    bare = line.strip()
    return not bare or (bare[0] > 127 and not bare.decode("utf-8", "ignore").strip())


def _place_plain(line: bytes, blank: bool, blank_before: bool, inside: bool) -> bool | None:
    return None if blank else not inside


def _place_wikitext(line: bytes, blank: bool, blank_before: bool, inside: bool) -> bool | None:
    """A first-level heading begins a document; text before the first one is a document too."""
    if blank:
        return False if inside else None
    # A table row may look like a heading, but has no blank line before it.
    return not inside or (blank_before and _HEADING.fullmatch(line) is not None)


def _place_wikipedia(line: bytes, blank: bool, blank_before: bool, inside: bool) -> bool | None:
    """<doc ...> and </doc> delimit a document."""
    start = line.lstrip()
    if start.startswith(b"<doc "):
        return True
    return False if inside and not start.startswith(b"</doc>") else None


def _place_json(line: bytes, blank: bool, blank_before: bool, inside: bool) -> bool | None:
    return None if blank else True


def _wikitext_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if not _ANY_HEADING.fullmatch(line)]


def _wikipedia_lines(text: str) -> list[str]:
    head, _, rest = text.partition("\n")
    title = _TITLE.match(head)
    lines = html.unescape(rest).split("\n")
    # The extractor repeats the title in the first line.
    return lines[1:] if title and lines[0].strip() == html.unescape(title[1]).strip() else lines


def _json_lines(text: str) -> list[str]:
    # The tokenizer drops the replacement character.
    return _HALF.sub("\ufffd", _text_of(text)).split("\n")


def _text_of(line: str | bytes) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise InputError(f'A line of JSON has no \'text\': {line[:60]!r}. Expected such as {{"text": "..."}} in each.')
    return text


def _cut(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph."""
    begin = 0
    for match in _END.finditer(paragraph):
        # The full stop of "U.S." and "J." is part of the word; that of a tokenised "Smith ." is not.
        before = paragraph[max(begin, match.start() - _LONGEST) : match.start()]
        if paragraph[match.start()] == "." and _ABBREVIATED.search(" " + before):
            continue
        yield paragraph[begin : match.end()]
        begin = match.end()
    if begin < len(paragraph):
        yield paragraph[begin:]


LAYOUTS = {
    "plain": Layout(
        "a sentence a line, blank lines between documents", _place_plain, lambda text: text.split("\n"), False
    ),
    "wikitext": Layout("WikiText's headings and paragraphs", _place_wikitext, _wikitext_lines),
    "wikipedia": Layout("a Wikipedia extract of <doc> blocks", _place_wikipedia, _wikipedia_lines),
    "json": Layout("JSON lines with a text each", _place_json, _json_lines),
}
