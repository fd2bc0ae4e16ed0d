"""RACE's questions, read from its folder or from tar files. Nothing here needs TensorFlow.

A passage is a text file in train, dev or test and there in middle or high: a JSON dictionary of 'article',
'questions', 'options' (four a question) and 'answers' (A to D). Source: Lai et al. 2017.
"""

import dataclasses
import json
import os
import re
import tarfile
import zlib

from tfbigbatch.errors import InputError, nearest

SPLITS, LEVELS = ("train", "dev", "test"), ("middle", "high")
OPTIONS = "ABCD"
_EXPECTED = (
    "Expected RACE's folder, with train, dev and test in it and there middle and high; or RACE.tar.gz; or a folder of "
    "RACE.tar.gz, or of RACE-train.tar.gz, RACE-dev.tar.gz and RACE-test.tar.gz."
)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a passage.

    Attributes:
      id: the level, the passage's file and the question's number in it, as 'high/19432-0'.
      level: 'middle' or 'high'.
      article: the passage; the questions about one passage share it.
      text: the question, perhaps with a blank _ in it.
      options: tuple of four texts.
      answer: the right one's index.
    """

    id: str
    level: str
    article: str
    text: str
    options: tuple
    answer: int


def read(source, split):
    """The questions of a split: first those of middle schools, passages by their files' names.

    Args:
      source: RACE's folder, with train, dev and test in it; a tar file of it; or a folder with RACE.tar.gz, or with
        RACE-train.tar.gz and so on.
      split: 'train', 'dev' or 'test'.

    Raises:
      ValueError: the split is unknown; there is no such source; or a file is damaged or not of RACE's form.
    """
    if split not in SPLITS:
        raise InputError(f"RACE has no split {split!r}. {nearest(split, SPLITS)}")
    if source is None:
        raise InputError(f"--data_dir is missing. {_EXPECTED}")
    files = _files(source, split)
    if not files:
        raise InputError(f"{source} holds no passage of {split}. {_EXPECTED}")
    order = sorted(files, key=lambda file: (LEVELS.index(file[0]), file[1]))
    return [question for file in order for question in _of_passage(source, split, *file)]


def _files(source, split):
    """List of (level, name, content as bytes)."""
    if os.path.isdir(os.path.join(source, split)):
        return _of_folder(os.path.join(source, split))
    if os.path.isfile(source):
        return _of_tar(source, split)
    for name in (f"RACE-{split}.tar.gz", "RACE.tar.gz"):
        if os.path.isfile(os.path.join(source, name)):
            return _of_tar(os.path.join(source, name), split)
    raise InputError(f"{source} is neither RACE's folder nor its tar file. {_EXPECTED}")


def _of_folder(folder):
    files = []
    try:
        for level in LEVELS:
            for entry in os.scandir(os.path.join(folder, level)):
                if entry.name.endswith(".txt"):
                    with open(entry.path, "rb") as file:
                        files.append((level, entry.name, file.read()))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}. {_EXPECTED}") from None
    return files


def _of_tar(path, split):
    wanted, files = re.compile(rf"(?:^|/){split}/({'|'.join(LEVELS)})/([^/]+\.txt)$"), []
    try:
        # Read from its beginning to its end, since a compressed file cannot be sought in.
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                match = wanted.search(member.name)
                if match and member.isfile():
                    files.append((match[1], match[2], tar.extractfile(member).read()))
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise InputError(f"{path} cannot be read as a tar file ({error}). Fetch the file again.") from None
    return files


def _of_passage(source, split, level, name, content):
    try:
        passage = json.loads(content)
        article, rows = (
            passage["article"],
            list(zip(passage["questions"], passage["options"], passage["answers"], strict=True)),
        )
        for number, (text, options, answer) in enumerate(rows):
            if len(options) != len(OPTIONS) or len(answer) != 1 or answer not in OPTIONS:
                raise ValueError(f"question {number} has {len(options)} options and the answer {answer!r}")
            if isinstance(options, str) or not all(isinstance(each, str) for each in (article, text, *options)):
                raise TypeError(f"question {number} has something else where a text belongs")
            stem = name.removesuffix(".txt")
            yield Question(f"{level}/{stem}-{number}", level, article, text, tuple(options), OPTIONS.index(answer))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{source}: {split}/{level}/{name} is not of RACE's form ({error!r}); expected a JSON dictionary of "
            "'article', 'questions', 'options', four a question, and 'answers' from A to D."
        ) from None
