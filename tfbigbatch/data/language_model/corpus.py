"""A word-level corpus as arrays of token ids, prepared once from plain text.

A prepared folder holds train.npy, valid.npy and test.npy (int32 [tokens]), vocab.txt (a word per line, in id order) and
manifest.json with their digests, written last: a folder without it is incomplete.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import glob
import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfbigbatch.data import stored_tokens, text_files
from tfbigbatch.data.records import manifest as manifests
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.home import expanded

SPLITS = ("train", "valid", "test")
END_OF_LINE, UNKNOWN = "<eos>", "<unk>"
KIND = manifests.Kind(
    content="a corpus of words",
    format=1,
    what="corpus",
    command="tfbigbatch prepare-ptb --source=FOLDER_WITH_THE_TEXTS --output_dir=PREPARED",
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


def load(data_dir: str | None) -> Corpus:
    """The corpus that `prepare` wrote into `data_dir`.

    Raises:
      ValueError: the folder is not prepared, or a file is damaged.
    """
    digests = manifests.require(data_dir, KIND).get("sha256")
    if data_dir is None or not isinstance(digests, dict):
        raise InputError(f"{data_dir}: {manifests.MANIFEST} is damaged. {KIND.again}")
    folder = expanded(data_dir)
    parts = {
        split: stored_tokens.read_array(folder, f"{split}.npy", digests.get(split), KIND.again) for split in SPLITS
    }
    path = os.path.join(folder, _VOCABULARY)
    with files.reading_errors(path):
        content = files.read_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    stored_tokens.check_vocabulary(path, digest, digests.get("vocabulary"), KIND.again)
    return Corpus(**parts, vocabulary=tuple(content.decode().split("\n")[:-1]))


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


def prepare(
    texts: Mapping[str, str], output_dir: str, *, vocabulary_size: int | None = None, overwrite: bool = False
) -> tuple[dict[str, Any], bool]:
    """Prepares a folder from three texts, line by line.

    Words are separated by white space; each line, an empty one too, ends with <eos>. The vocabulary is the training
    text's, by frequency and then alphabetically, always with <eos> and <unk>; other words are <unk>.

    Args:
      texts: paths of UTF-8 texts for 'train', 'valid' and 'test'.
      output_dir: the prepared folder; created if missing.
      vocabulary_size: words to keep, with <eos> and <unk>; None for all words of the training text.
      overwrite: replace a folder that was prepared from other texts or with another size.

    Returns:
      The manifest; and True if the folder held this corpus already.

    Raises:
      ValueError: a text is missing, empty or not UTF-8; or the folder holds another corpus.
    """
    if vocabulary_size is not None and vocabulary_size < 2:
        raise InputError(
            f"--vocabulary_size={vocabulary_size}: expected 2 or more, since {END_OF_LINE} and {UNKNOWN} count."
        )
    sources = {split: {"file": os.path.basename(texts[split]), "sha256": _sha256(texts[split])} for split in SPLITS}
    asked = {"sources": sources, "asked_vocabulary_size": vocabulary_size}
    before, path = manifests.read(output_dir, KIND), os.path.join(output_dir, manifests.MANIFEST)
    if before and not overwrite and all(before.get(name) == value for name, value in asked.items()):
        return before, True
    if os.path.exists(path) and not (before and overwrite):
        raise InputError(
            f"--output_dir={output_dir} holds a corpus of other texts or of another vocabulary size, or another set. "
            "Choose another folder, or pass --overwrite."
        )
    words = _vocabulary(texts["train"], vocabulary_size)
    encoded = {split: _encode(texts[split], words) for split in SPLITS}
    try:
        os.makedirs(output_dir, exist_ok=True)
        if before is not None:
            # A crash from here on leaves no folder that mixes two corpora.
            os.remove(path)
    except OSError as error:
        raise InputError(f"--output_dir={output_dir} cannot be written: {error.strerror or error}.") from None
    lines = "".join(f"{word}\n" for word in words).encode()
    stored_tokens.write(output_dir, _VOCABULARY, lines)
    digests = {split: stored_tokens.write_array(output_dir, f"{split}.npy", ids) for split, (ids, _) in encoded.items()}
    fields: dict[str, Any] = {
        **asked,
        "vocabulary_size": len(words),
        "tokens": {split: len(tokens) for split, (tokens, _) in encoded.items()},
        "unknown": {split: unknown for split, (_, unknown) in encoded.items()},
        "sha256": {**digests, "vocabulary": hashlib.sha256(lines).hexdigest()},
    }
    manifests.save(output_dir, KIND, {}, fields)
    return manifests.read(output_dir, KIND) or {}, False


def _vocabulary(path: str, size: int | None) -> dict[str, int]:
    """The ids of the words kept, in id order."""
    counts = collections.Counter(word for line in _lines(path) for word in line)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if size is not None:
        # <eos> and <unk> are kept at any rank, in place of the rarest words.
        others = [word for word in ordered if word not in (END_OF_LINE, UNKNOWN)]
        kept = {*others[: size - 2], END_OF_LINE, UNKNOWN}
        ordered = [word for word in ordered if word in kept]
    if UNKNOWN not in ordered:
        ordered.append(UNKNOWN)
    return {word: number for number, word in enumerate(ordered)}


def _encode(path: str, words: Mapping[str, int]) -> tuple[np.ndarray, int]:
    """(int32 ids, number of words replaced by <unk>)."""
    unknown_number, unknown, numbers = words[UNKNOWN], 0, array.array("i")
    for line in _lines(path):
        for word in line:
            number = words.get(word)
            if number is None:
                number, unknown = unknown_number, unknown + 1
            numbers.append(number)
    return np.frombuffer(numbers, np.intc).astype(np.int32), unknown


def _lines(path: str) -> Iterator[list[str]]:
    """The words of each line, and <eos>."""
    return ([*line.split(), END_OF_LINE] for line in text_files.lines(path))


def _sha256(path: str) -> str:
    expected = "Expected three plain texts, such as the Mikolov files ptb.train.txt, ptb.valid.txt and ptb.test.txt."
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. {expected}") from None
    if size == 0:
        raise InputError(f"{path} is empty. {expected}")
    return digest
