"""The files of a corpus: the positions of their documents, and the sentences of these.

Documents are byte ranges, so that a corpus is scanned once without being held in memory, and any document can be read
by itself.

Paragraphs are split into sentences by rules: next-sentence prediction needs segments, not grammar. A sentence ends at
'.', '!' or '?' and closing quotes or brackets, before white space and a capital, a digit, or an opening quote or
bracket; not after a single capital ("J. Smith") or a common abbreviation. In tokenised text ("left . " Why") an
ambiguous quote belongs to the sentence before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.data.records import preparation
from tfbigbatch.errors import InputError

UNDERSTOOD = (
    "A text file with a sentence a line and blank lines between documents; WikiText's files; JSON lines with a 'text' "
    "each, as WikiExtractor --json writes them; or a folder of such files (.txt, .tokens, .json, .jsonl, wiki_00), "
    "each perhaps packed as .gz or .bz2."
)
_NAME = re.compile(r"(.*\.(txt|text|tokens|raw|json|jsonl)|wiki_\d+)(\.gz|\.bz2)?")
_NO_TEXT = "not a text by name (.txt, .tokens, .jsonl, ...)"
_HEADING = re.compile(rb"\s?= [^=].*[^=] =\s*|\s?= [^=] =\s*")
_ANY_HEADING = re.compile(r"\s*(= )+[^=].* =\s*|\s*(= )+[^=] =\s*")
# Half of a character of two UTF-16 units, as JSON may escape it; UTF-8 cannot hold it.
_HALF = re.compile("[\ud800-\udfff]")
_END = re.compile(r"""[.!?]["'”’)\]]*( ["'”’)\]])*\s+(?=["'“‘(\[]?\s?[^\W_a-z])""")
_ABBREVIATED = re.compile(
    r"[\s(\"'](?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|vs|etc|cf|ca|al|vol|pp"
    r"|Fig|Inc|Ltd|Co|Corp|e\.g|i\.e|[A-Z](?:\.[A-Z])+)$"
)
# Longer than any abbreviation.
_LONGEST = 12


def ranges(layout: str, lines: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """(offset, length) in bytes of each document of a file, from its lines with line ends.

    Blank lines end a document of plain text; WikiText's first-level headings begin one; each line of JSON is one.
    """
    position, end, blank = 0, 0, True
    begin: int | None = None
    for line in lines:
        before, blank = blank, is_blank(line)
        if layout == "wikitext":
            # A table row may look like a heading, but has no blank line before it.
            ends = before and _HEADING.fullmatch(line) is not None
        else:
            ends = blank or layout == "json"
        if ends and begin is not None:
            yield begin, end - begin
            begin = None
        if not blank:
            begin, end = position if begin is None else begin, position + len(line)
        position += len(line)
    if begin is not None:
        yield begin, end - begin


def paragraphs(layout: str, text: str) -> list[str]:
    """The paragraphs of a document, or the sentences of plain text, a line each."""
    if layout == "json":
        # The tokenizer drops the replacement character.
        text = _HALF.sub("\ufffd", _text_of(text))
    lines = text.split("\n")
    return [line for line in lines if not _ANY_HEADING.fullmatch(line)] if layout == "wikitext" else lines


def sentences(layout: str, text: str) -> list[str]:
    """The sentences of a document."""
    found = paragraphs(layout, text)
    return found if layout == "plain" else [part for paragraph in found for part in _cut(paragraph)]


def layout_of(line: bytes) -> str:
    """The layout, "plain", "wikitext" or "json", of a file with this first non-blank line.

    Raises:
      ValueError: it is JSON without a 'text', an array, or a <doc> block.
    """
    if line.lstrip().startswith(b"<doc "):
        raise InputError("It holds <doc> blocks; expected JSON lines: WikiExtractor writes these with --json.")
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


@dataclasses.dataclass(frozen=True, eq=False)
class Documents:
    """Positions of documents.

    Attributes:
      files: paths.
      layouts: of each file, see `layout_of`.
      number: int64 [documents], number in the corpus.
      file: int32 [documents], index into `files`; non-decreasing.
      offset, length: int64 [documents], in bytes of the decompressed file; offsets increase within a file.
    """

    files: tuple[str, ...]
    layouts: tuple[str, ...]
    number: np.ndarray
    file: np.ndarray
    offset: np.ndarray
    length: np.ndarray

    def __len__(self) -> int:
        return len(self.number)

    def only(self, which: np.ndarray | slice) -> Documents:
        """Some of the documents: increasing indices, or a slice."""
        return dataclasses.replace(
            self, **{name: getattr(self, name)[which] for name in ("number", "file", "offset", "length")}
        )

    def texts(self) -> Iterator[tuple[str, str, bool]]:
        """(text, layout, True if all is UTF-8) of each document; other bytes are dropped."""
        now = None
        with contextlib.ExitStack() as stack:
            for index, offset, length in zip(self.file.tolist(), self.offset.tolist(), self.length.tolist()):
                if index != now:
                    stack.close()
                    now, file = index, stack.enter_context(text_files.opened(self.files[index]))
                file.seek(offset)
                content = file.read(length)
                try:
                    text, whole = content.decode("utf-8"), True
                except UnicodeDecodeError:
                    text, whole = content.decode("utf-8", "ignore"), False
                yield text, self.layouts[index], whole


def find(source: str) -> tuple[list[str], list[str], dict[str, int]]:
    """(names relative to `source`, sorted; their paths; numbers of other files by reason) of a folder, or of one file.

    Raises:
      ValueError: there is none.
    """
    if os.path.isfile(source):
        return [os.path.basename(source)], [os.path.abspath(source)], {}
    walk = ((folder, name) for folder, _, names in os.walk(source) for name in names)
    found = sorted(os.path.relpath(os.path.join(folder, name), source) for folder, name in walk)
    shown = [name for name in found if not preparation.is_hidden(name)]
    texts = [name for name in shown if _NAME.fullmatch(os.path.basename(name))]
    if not texts:
        problem = "holds no such file" if os.path.isdir(source) else "does not exist"
        raise InputError(f"--source={source} {problem}. Understood is: {UNDERSTOOD}")
    unused = {preparation.HIDDEN: len(found) - len(shown), _NO_TEXT: len(shown) - len(texts)}
    return texts, [os.path.abspath(os.path.join(source, name)) for name in texts], unused


def scan(path: str, tick: Callable[[], None]) -> tuple[str, np.ndarray]:
    """The layout of a file, and its documents' offsets and lengths, int64 [documents, 2].

    Raises:
      ValueError: it cannot be read, or is UTF-16.
    """
    with text_files.opened(path) as file:
        mark = text_files.skip_mark(file, path)
        first = next((line for line in file if not is_blank(line)), b"")
        file.seek(mark)
        try:
            layout = layout_of(first)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        found = itertools.chain.from_iterable(ranges(layout, file))
        positions = np.fromiter(found, np.int64).reshape(-1, 2)
    tick()
    return layout, positions + [mark, 0]


def documents(scans: dict[str, tuple[str, np.ndarray]]) -> Documents:
    """The documents of some files, from their scans by path."""
    layouts, positions = zip(*scans.values())
    file = np.repeat(np.arange(len(scans), dtype=np.int32), list(map(len, positions)))
    offset, length = np.concatenate(positions).T
    return Documents(tuple(scans), layouts, np.arange(len(file)), file, offset, length)
