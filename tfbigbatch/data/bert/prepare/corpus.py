"""The files of a corpus, and the positions of their documents."""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import gzip
import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np

from tfbigbatch.data.bert.prepare.layouts import LAYOUTS, Layout, documents_of, is_blank, layout_of
from tfbigbatch.errors import InputError

UNDERSTOOD = (
    "A text file with a sentence a line and blank lines between documents; WikiText's files; what WikiExtractor "
    "writes (<doc> blocks, or JSON lines with a 'text' each); or a folder of such files (.txt, .tokens, .json, "
    ".jsonl, wiki_00), each perhaps packed as .gz or .bz2."
)
_NAME = re.compile(r"(.*\.(txt|text|tokens|raw|json|jsonl)|wiki_\d+)(\.gz|\.bz2)?")
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


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
        """(text, layout, whether it was valid UTF-8) of each document; invalid bytes are dropped."""
        now = None
        with contextlib.ExitStack() as stack:
            for index, offset, length in zip(self.file.tolist(), self.offset.tolist(), self.length.tolist()):
                if index != now:
                    stack.close()
                    now, file = index, stack.enter_context(opened(self.files[index]))
                    layout = LAYOUTS[self.layouts[index]]
                file.seek(offset)
                content = file.read(length)
                try:
                    yield content.decode("utf-8"), layout, True
                except UnicodeDecodeError:
                    yield content.decode("utf-8", "ignore"), layout, False


# Layout name, offsets and lengths, int64 [documents] each.
Scan = tuple[str, np.ndarray, np.ndarray]


def find(source: str) -> tuple[list[str], list[str]]:
    """The files of a corpus: (names relative to `source`, paths), sorted; `source` may be one file.

    Raises:
      ValueError: there is none.
    """
    if os.path.isfile(source):
        return [os.path.basename(source)], [os.path.abspath(source)]
    found = []
    for folder, _, names in os.walk(source):
        found += [os.path.join(folder, name) for name in names if _NAME.fullmatch(name)]
    if not found:
        problem = "holds no such file" if os.path.isdir(source) else "does not exist"
        raise InputError(f"--source={source} {problem}. Understood is: {UNDERSTOOD}")
    found.sort(key=lambda path: os.path.relpath(path, source))
    return [os.path.relpath(path, source) for path in found], [os.path.abspath(path) for path in found]


def opened(path: str) -> BinaryIO:
    """A file opened for reading bytes, decompressed by its extension."""
    packed = _PACKED.get(os.path.splitext(path)[1])
    return cast(BinaryIO, packed(path, "rb") if packed else open(path, "rb"))


def scan(path: str, tick: Callable[[], None]) -> Scan:
    """The layout and the documents of a file.

    Raises:
      ValueError: it cannot be read.
    """
    try:
        with opened(path) as file:
            first = next((line for line in file if not is_blank(line)), b"")
            file.seek(0)
            name = next(name for name, layout in LAYOUTS.items() if layout is layout_of(first))
            found = itertools.chain.from_iterable(documents_of(file, LAYOUTS[name]))
            positions = np.fromiter(found, np.int64).reshape(-1, 2)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    tick()
    return name, positions[:, 0], positions[:, 1]


def documents(paths: Sequence[str], scans: Sequence[Scan]) -> Documents:
    """The documents of some files, from their scans."""
    counts = [len(offsets) for _, offsets, _ in scans]
    return Documents(
        files=tuple(paths),
        layouts=tuple(name for name, _, _ in scans),
        number=np.arange(sum(counts)),
        file=np.repeat(np.arange(len(paths), dtype=np.int32), counts),
        offset=np.concatenate([offsets for _, offsets, _ in scans]),
        length=np.concatenate([lengths for _, _, lengths in scans]),
    )
