"""A word-level corpus as arrays of token ids, prepared once from plain text.

A prepared folder holds train.npy, valid.npy and test.npy (int32 [tokens]), vocab.txt (a word per line, in id order) and
manifest.json with their digests, written last: a folder without it is incomplete.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import functools
import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data import prepared_text, text_files
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.data.records import preparation
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

SPLITS = ("train", "valid", "test")
END_OF_LINE, UNKNOWN = "<eos>", "<unk>"
KIND = manifests.Kind(
    what="corpus", command="tfbigbatch prepare-ptb --source=FOLDER_WITH_THE_TEXTS --output_dir=PREPARED"
)
_VOCABULARY = "vocab.txt"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A prepared corpus.

    Attributes:
      train, valid, test: int32 [tokens], in [0, len(vocabulary)).
      vocabulary: words, in id order.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    vocabulary: tuple[str, ...]

    @property
    def token_counts(self) -> np.ndarray:
        """The number of times that each word is to be predicted in training: int64 [vocabulary]."""
        return np.bincount(self.train, minlength=len(self.vocabulary))


def fake() -> Corpus:
    """A corpus of 12 words, 2,000, 300 and 250 tokens; most words can be predicted from the one before."""
    random, parts = np.random.RandomState(0), []
    for size in (2000, 300, 250):
        steps = np.where(random.rand(size) < 0.8, 1, random.randint(0, 12, size))
        parts.append((np.cumsum(steps) % 12).astype(np.int32))
    train, valid, test = parts
    return Corpus(train, valid, test, vocabulary=tuple(f"word{number}" for number in range(12)))


def load(data_dir: str | None) -> Corpus:
    """The corpus that `prepare` wrote into `data_dir`.

    Raises:
      ValueError: the folder is not prepared, or a file is damaged.
    """

    with manifests.loading(data_dir, KIND) as (folder, content, _):
        digests = content["sha256"]
        parts = {split: prepared_text.read_array(folder, f"{split}.npy", digests[split]) for split in SPLITS}
        path = os.path.join(folder, _VOCABULARY)
        with files.reading_errors(path):
            words = files.read_bytes(path)
        prepared_text.check_vocabulary(path, words, digests["vocabulary"])
        return Corpus(**parts, vocabulary=tuple(words.decode().split("\n")[:-1]))


def find_texts(folder: str) -> dict[str, str]:
    """The paths of a folder's .txt or .tokens files with 'train', 'valid' and 'test' in their names, by these words.

    Raises:
      ValueError: there is none for a split, or several.
    """
    found = {}
    for split in SPLITS:
        pattern = os.path.join(glob.escape(folder), f"*{split}*.")
        names = sorted(glob.glob(pattern + "txt") + glob.glob(pattern + "tokens"))
        if len(names) != 1:
            has = f"has {', '.join(map(os.path.basename, names))}" if names else "has none"
            raise InputError(f"--source={folder}: expected one *{split}*.txt, such as ptb.{split}.txt; it {has}.")
        found[split] = names[0]
    return found


def prepare(texts: Mapping[str, str], output_dir: str) -> tuple[dict[str, Any], bool]:
    """Prepares a folder from three texts, line by line.

    Words are separated by white space; each line, an empty one too, ends with <eos>. The vocabulary is the training
    text's, by frequency and then alphabetically, always with <eos> and <unk>; other words are <unk>.

    Args:
      texts: paths of UTF-8 texts for 'train', 'valid' and 'test'.
      output_dir: see `preparation.prepare`, as for the result.

    Raises:
      ValueError: a text is missing, empty or not UTF-8; or as `preparation.prepare`.
    """
    return preparation.prepare(_Texts(texts), output_dir, processes=1)


class _Texts(preparation.Preparation):
    """The preparation of three texts; a task is the name of a split, its result the ids and the words made <unk>."""

    kind, load, unit = KIND, staticmethod(load), "text"

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        paths = [texts[split] for split in SPLITS]
        rows = prepared_text.rows_of(list(map(os.path.basename, paths)), paths)
        self.fingerprint = preparation.fingerprint(texts["train"], KIND.what, {}, None, rows)

    def tasks(self, folder: str, say: Callable[[str], object]) -> Sequence[str]:
        self._words = _vocabulary(self._texts["train"])
        return SPLITS

    @property
    def function(self) -> Callable[[str, Callable[[], None]], tuple[np.ndarray, int]]:
        return functools.partial(_encode, self._texts, self._words)

    def save(self, folder: str, results: dict[str, tuple[np.ndarray, int]]) -> None:
        lines = "".join(f"{word}\n" for word in self._words).encode()
        prepared_text.write(folder, _VOCABULARY, lines)
        digests = {name: prepared_text.write_array(folder, f"{name}.npy", ids) for name, (ids, _) in results.items()}
        fields = {
            **self.fingerprint,
            "vocabulary_size": len(self._words),
            "tokens": {split: len(ids) for split, (ids, _) in results.items()},
            "unknown": {split: unknown for split, (_, unknown) in results.items()},
            "sha256": {**digests, "vocabulary": hashlib.sha256(lines).hexdigest()},
        }
        manifests.save(folder, KIND, {}, fields)


def _vocabulary(path: str) -> dict[str, int]:
    """The ids of the words, in id order."""
    counts = collections.Counter(word for line in _lines(path) for word in line)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if UNKNOWN not in ordered:
        ordered.append(UNKNOWN)
    return {word: number for number, word in enumerate(ordered)}


def _encode(
    texts: Mapping[str, str], words: Mapping[str, int], split: str, tick: Callable[[], None]
) -> tuple[np.ndarray, int]:
    """(int32 ids, number of words replaced by <unk>)."""
    unknown, numbers = words[UNKNOWN], array.array("i")
    replaced = 0
    for line in _lines(texts[split]):
        for word in line:
            number = words.get(word)
            if number is None:
                number, replaced = unknown, replaced + 1
            numbers.append(number)
    if not numbers:
        raise InputError(f"{texts[split]} is empty. Expected a plain text, such as the Mikolov file ptb.train.txt.")
    tick()
    return np.frombuffer(numbers, np.intc).astype(np.int32), replaced


def _lines(path: str) -> Iterator[list[str]]:
    """The words of each line, and <eos>."""
    return ([*line.split(), END_OF_LINE] for line in text_files.lines(path))
