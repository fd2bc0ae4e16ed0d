"""RACE (Lai et al. 2017): questions read from its tar files.

A passage is a text file in {train,dev,test}/{middle,high}: a JSON dictionary of 'article', 'questions', 'options' (four
per question) and 'answers' (A to D). Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator

from tfbigbatch.errors import InputError, nearest

SPLITS, LEVELS = ("train", "dev", "test"), ("middle", "high")
OPTIONS = "ABCD"
_BLANK = re.compile("_+")
_EXPECTED = "Expected RACE.tar.gz, or a folder with it or with RACE-train.tar.gz, RACE-dev.tar.gz and RACE-test.tar.gz."


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a passage.

    Attributes:
      id: level, passage file and number, as 'high/19432-0'.
      level: 'middle' or 'high'.
      article: the passage, shared by its questions.
      text: the question, perhaps with a blank _.
      options: four texts.
      answer: index of the right option.
    """

    id: str
    level: str
    article: str
    text: str
    options: tuple[str, ...]
    answer: int

    def filled(self, option: str) -> str:
        """The question with an option in its blank, or after it where it has none."""
        # A function, since an option may contain a backslash.
        filled, blanks = _BLANK.subn(lambda _: option, self.text)
        return filled if blanks else f"{self.text} {option}"


def read(source: str | None, split: str, level: str = "all") -> list[Question]:
    """The questions of a split: middle schools first, passages in the order of their file names.

    Args:
      source: RACE's tar file, or a folder with RACE.tar.gz or RACE-train.tar.gz and so on.
      split: 'train', 'dev' or 'test'.
      level: 'middle', 'high' or 'all'.

    Raises:
      ValueError: the split or level is unknown, there is no such source, or a file is damaged or of another structure.
    """
    levels = {"all": LEVELS, **{each: (each,) for each in LEVELS}}
    for kind, name, known in (("split", split, SPLITS), ("level", level, levels)):
        if name not in known:
            raise InputError(f"RACE has no {kind} {name!r}. {nearest(name, known)}")
    if source is None:
        raise InputError(f"--data_dir is missing. {_EXPECTED}")
    files = [file for file in _files(source, split) if file[0] in levels[level]]
    if not files:
        raise InputError(f"{source} holds no passage of {split}. {_EXPECTED}")
    order = sorted(files, key=lambda file: (LEVELS.index(file[0]), file[1]))
    return [question for file in order for question in _of_passage(source, split, *file)]


def _files(source: str, split: str) -> list[tuple[str, str, bytes]]:
    """(level, file name, content) of each passage."""
    names = [source, *(os.path.join(source, name) for name in (f"RACE-{split}.tar.gz", "RACE.tar.gz"))]
    path = next(filter(os.path.isfile, names), None)
    if path is None:
        raise InputError(f"{source} is neither RACE's tar file nor a folder with it. {_EXPECTED}")
    wanted, files = re.compile(rf"(?:^|/){split}/({'|'.join(LEVELS)})/([^/.][^/]*\.txt)$"), []
    try:
        # As a stream, since seeking in a compressed file reads it again.
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                match = wanted.search(member.name)
                content = tar.extractfile(member) if match and member.isfile() else None
                if match and content:
                    files.append((match[1], match[2], content.read()))
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise InputError(f"{path} cannot be read as a tar file ({error}). Fetch the file again.") from None
    return files


def _of_passage(source: str, split: str, level: str, name: str, content: bytes) -> Iterator[Question]:
    try:
        passage = json.loads(content)
        article = passage["article"]
        rows = list(zip(passage["questions"], passage["options"], passage["answers"], strict=True))
        for number, (text, options, answer) in enumerate(rows):
            if len(options) != len(OPTIONS) or len(answer) != 1 or answer not in OPTIONS:
                raise ValueError(f"question {number} has {len(options)} options and the answer {answer!r}")
            if isinstance(options, str) or not all(isinstance(each, str) for each in (article, text, *options)):
                raise TypeError(f"question {number} has something else in place of a text")
            stem = name.removesuffix(".txt")
            yield Question(f"{level}/{stem}-{number}", level, article, text, tuple(options), OPTIONS.index(answer))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{source}: {split}/{level}/{name} is not of RACE's form ({error!r}); expected a JSON dictionary of "
            "'article', 'questions', 'options', four a question, and 'answers' from A to D."
        ) from None
