"""The files of a corpus, and the positions of their documents."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterator

import numpy as np

from tfbigbatch.data import left_out, text_files
from tfbigbatch.data.bert.prepare.layouts import LAYOUTS, Layout, is_blank, layout_of
from tfbigbatch.errors import InputError

UNDERSTOOD = (
    "A text file with a sentence a line and blank lines between documents; WikiText's files; what WikiExtractor "
    "writes (<doc> blocks, or JSON lines with a 'text' each); or a folder of such files (.txt, .tokens, .json, "
    ".jsonl, wiki_00), each perhaps packed as .gz or .bz2."
)
_NAME = re.compile(r"(.*\.(txt|text|tokens|raw|json|jsonl)|wiki_\d+)(\.gz|\.bz2)?")
_NO_TEXT, _LINKED = "not a text by name (.txt, .tokens, .jsonl, ...)", "links to folders, which are not followed"


@dataclasses.dataclass(frozen=True, eq=False)
class Documents:
    """Positions of documents.

    Attributes:
      files: paths.
      layouts: name of each file's layout.
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

    def texts(self) -> Iterator[tuple[str, Layout, bool]]:
        """(text, layout, True if all is UTF-8) of each document; other bytes are dropped."""
        now = None
        with contextlib.ExitStack() as stack:
            for index, offset, length in zip(self.file.tolist(), self.offset.tolist(), self.length.tolist()):
                if index != now:
                    stack.close()
                    now, file = index, stack.enter_context(text_files.opened(self.files[index]))
                    layout = LAYOUTS[self.layouts[index]]
                file.seek(offset)
                content = file.read(length)
                try:
                    text, whole = content.decode("utf-8"), True
                except UnicodeDecodeError:
                    text, whole = content.decode("utf-8", "ignore"), False
                yield text, layout, whole


# Layout name, offsets and lengths, int64 [documents] each.
Scan = tuple[str, np.ndarray, np.ndarray]


def find(source: str) -> tuple[list[str], list[str], dict[str, int]]:
    """The files of a corpus, and how many beside them are not read.

    Args:
      source: a folder, or one file.

    Returns:
      (names relative to `source`, sorted; their paths; numbers of other files by reason).

    Raises:
      ValueError: there is none.
    """
    if os.path.isfile(source):
        return [os.path.basename(source)], [os.path.abspath(source)], {}
    found, unused = [], collections.Counter[str]()
    for folder, folders, files in os.walk(source):
        names = [os.path.relpath(os.path.join(folder, name), source) for name in files]
        unused[_LINKED] += sum(os.path.islink(os.path.join(folder, name)) for name in folders)
        unused[left_out.HIDDEN] += sum(map(left_out.is_hidden, names))
        shown = [name for name in names if not left_out.is_hidden(name)]
        texts = [name for name in shown if _NAME.fullmatch(os.path.basename(name))]
        unused[_NO_TEXT] += len(shown) - len(texts)
        found += texts
    if not found:
        problem = "holds no such file" if os.path.isdir(source) else "does not exist"
        raise InputError(f"--source={source} {problem}. Understood is: {UNDERSTOOD}")
    found.sort()
    paths = [os.path.abspath(os.path.join(source, name)) for name in found]
    return found, paths, {reason: count for reason, count in unused.items() if count}


def scan(path: str, tick: Callable[[], None]) -> Scan:
    """The layout and the documents of a file.

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
        found = itertools.chain.from_iterable(LAYOUTS[layout].documents(file))
        positions = np.fromiter(found, np.int64).reshape(-1, 2)
    tick()
    return layout, positions[:, 0] + mark, positions[:, 1]


def documents(scans: dict[str, Scan]) -> Documents:
    """The documents of some files, from their scans by path."""
    layouts, offsets, lengths = zip(*scans.values())
    counts = list(map(len, offsets))
    return Documents(
        files=tuple(scans),
        layouts=layouts,
        number=np.arange(sum(counts)),
        file=np.repeat(np.arange(len(scans), dtype=np.int32), counts),
        offset=np.concatenate(offsets),
        length=np.concatenate(lengths),
    )
