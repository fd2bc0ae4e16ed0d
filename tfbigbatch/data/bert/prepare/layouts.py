"""The shapes that a corpus of plain text comes in: where its documents lie, and their sentences.

A document is found by its place in its file, in bytes, so that a corpus is gone through once without being
held, and any document can be read again by itself.
"""

import dataclasses
import html
import json
import re
from collections.abc import Callable

from tfbigbatch.data.bert.prepare import sentences
from tfbigbatch.errors import InputError

_HEADING = re.compile(rb"\s?= [^=].*[^=] =\s*|\s?= [^=] =\s*")
_ANY_HEADING = re.compile(r"\s*(= )+[^=].* =\s*|\s*(= )+[^=] =\s*")
_TITLE = re.compile(r'<doc [^>]*title="([^"]*)"')


@dataclasses.dataclass(frozen=True)
class Layout:
    """A shape of a text file.

    Attributes:
      name: in words.
      split: function of an iterable of a file's lines, bytes each with their ends; gives for each line True where
        a document begins with it, None where it lies outside of any, and False where it goes on.
      sentences: function of (a document's text, whether to cut paragraphs); gives its sentences.
    """

    name: str
    split: Callable
    sentences: Callable


def layout_of(line):
    """The Layout of a file, by its first line that is not blank, as bytes.

    Raises:
      ValueError: it is of JSON lines, but has no 'text'.
    """
    if line.lstrip().startswith(b"<doc "):
        return LAYOUTS["wikipedia"]
    if line.lstrip().startswith(b"{"):
        _text_of(line)
        return LAYOUTS["json"]
    return LAYOUTS["wikitext" if _HEADING.fullmatch(line) else "plain"]


def documents(lines, layout):
    """Where the documents of a file begin and end.

    Args:
      lines: iterable of its lines, bytes each with their ends.
      layout: Layout.

    Yields:
      (offset, length) of each, in bytes.
    """
    position, begin, end = 0, None, 0
    lines, ahead = iter(lines), []

    def seen():
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


def is_blank(line):
    """Whether a line, in bytes, has nothing but white space; Unicode's counts too."""
    bare = line.strip()
    return not bare or (bare[0] > 127 and not bare.decode("utf-8", "ignore").strip())


def _split_plain(lines):
    """Documents of one sentence a line, with blank lines between them."""
    inside = False
    for line in lines:
        if is_blank(line):
            inside = False
            yield None
        else:
            yield not inside
            inside = True


def _split_wikitext(lines):
    """A heading of the first level begins a document; text before the first one is a document too."""
    inside, blank = False, True
    for line in lines:
        # A table's row may look like a heading, but has no blank line before it.
        begins = not inside or (blank and _HEADING.fullmatch(line) is not None)
        blank = is_blank(line)
        if blank and not inside:
            yield None
        else:
            inside = True
            yield begins


def _split_wikipedia(lines):
    """<doc ...> and </doc> bound a document; what lies between two documents is of none."""
    inside = False
    for line in lines:
        begins = line.startswith(b"<doc ")
        inside = inside or begins
        if line.startswith(b"</doc>"):
            inside = False
        yield begins if inside else None


def _split_json(lines):
    for line in lines:
        yield None if is_blank(line) else True


def _plain_sentences(text, cut):
    del cut  # a line is a sentence already
    return text.split("\n")


def _wikitext_sentences(text, cut):
    lines = [line for line in text.split("\n") if not _ANY_HEADING.fullmatch(line)]
    return sentences.of_paragraphs(lines) if cut else lines


def _wikipedia_sentences(text, cut):
    head, _, rest = text.partition("\n")
    title = _TITLE.match(head)
    lines = html.unescape(rest).split("\n")
    # The extractor begins the text with the title, in a line of its own.
    if title and lines[0].strip() == html.unescape(title[1]).strip():
        lines = lines[1:]
    return sentences.of_paragraphs(lines) if cut else lines


def _json_sentences(text, cut):
    lines = _text_of(text).split("\n")
    return sentences.of_paragraphs(lines) if cut else lines


def _text_of(line):
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
