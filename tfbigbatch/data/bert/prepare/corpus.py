"""The files of a corpus, and where their documents lie."""

import bz2
import contextlib
import dataclasses
import gzip
import itertools
import os
import re
import zlib

import numpy as np

from tfbigbatch.data.bert.prepare import layouts
from tfbigbatch.errors import InputError

UNDERSTOOD = (
    "A text file with a sentence a line and blank lines between documents; WikiText's files; what WikiExtractor "
    "writes (<doc> blocks, or JSON lines with a 'text' each); or a folder of such files (.txt, .tokens, .json, "
    ".jsonl, wiki_00), each perhaps packed as .gz or .bz2."
)
_NAME = re.compile(r"(.*\.(txt|text|tokens|raw|json|jsonl)|wiki_\d+)(\.gz|\.bz2)?")
_PACKED = {".gz": gzip.open, ".bz2": bz2.open}


@dataclasses.dataclass(frozen=True, eq=False)
class Documents:
    """Where some documents lie.

    Attributes:
      files: tuple of paths.
      layouts: tuple of a layout's name a file.
      number: int64 [documents], each one's number in the corpus.
      file: int32 [documents], each one's place in `files`; it never falls.
      offset, length: int64 [documents], in bytes of the unpacked file; within a file the offset grows.
    """

    files: tuple
    layouts: tuple
    number: np.ndarray
    file: np.ndarray
    offset: np.ndarray
    length: np.ndarray

    def __len__(self):
        return len(self.number)

    def only(self, which):
        """The same of some of them: indices that grow, or a slice."""
        return dataclasses.replace(
            self, **{name: getattr(self, name)[which] for name in ("number", "file", "offset", "length")}
        )

    def texts(self):
        """Each document's text and its Layout, one after the other; bytes that are not UTF-8 are left out.

        Yields:
          (text, Layout, True where no byte was left out).
        """
        now, file = None, None
        with contextlib.ExitStack() as stack:
            for place, offset, length in zip(self.file.tolist(), self.offset.tolist(), self.length.tolist()):
                if place != now:
                    stack.close()
                    now, file = place, stack.enter_context(opened(self.files[place]))
                    layout = layouts.LAYOUTS[self.layouts[place]]
                file.seek(offset)
                content = file.read(length)
                try:
                    yield content.decode("utf-8"), layout, True
                except UnicodeDecodeError:
                    yield content.decode("utf-8", "ignore"), layout, False


def find(source):
    """The files of a corpus: (names below `source`, paths), sorted; a file stands for itself.

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


def opened(path):
    """A file, unpacked, to be read as bytes."""
    return _PACKED.get(os.path.splitext(path)[1], open)(path, "rb")


def scan(path, tick):
    """Goes through a file.

    Returns:
      (the layout's name, offsets, lengths): int64 [documents] each.

    Raises:
      ValueError: it cannot be read.
    """
    try:
        with opened(path) as file:
            first = next((line for line in file if not layouts.is_blank(line)), b"")
            file.seek(0)
            name = next(name for name, layout in layouts.LAYOUTS.items() if layout is layouts.layout_of(first))
            found = itertools.chain.from_iterable(layouts.documents(file, layouts.LAYOUTS[name]))
            places = np.fromiter(found, np.int64).reshape(-1, 2)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    tick()
    return name, places[:, 0], places[:, 1]


def documents(paths, scans):
    """The Documents of some files, of what `scan` gave for each."""
    counts = [len(offsets) for _, offsets, _ in scans]
    return Documents(
        files=tuple(paths),
        layouts=tuple(name for name, _, _ in scans),
        number=np.arange(sum(counts)),
        file=np.repeat(np.arange(len(paths), dtype=np.int32), counts),
        offset=np.concatenate([offsets for _, offsets, _ in scans]),
        length=np.concatenate([lengths for _, _, lengths in scans]),
    )
