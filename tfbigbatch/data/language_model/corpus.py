"""A word-level corpus as arrays of token ids, prepared once from plain text.

A prepared folder holds train.npy, valid.npy and test.npy (int32 [tokens]), vocab.txt (a word per line, in id order),
train.token_counts.npy (token_counts.py) and manifest.json, written last: a folder without it is incomplete.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import functools
import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfbigbatch.data import text_files, token_counts
from tfbigbatch.data.token_counts import TokenCounts
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.files import atomic_write
from tfbigbatch.utils.home import expanded

SPLITS = ("train", "valid", "test")
END_OF_LINE, UNKNOWN = "<eos>", "<unk>"
_MANIFEST, _VOCABULARY = "manifest.json", "vocab.txt"
_COMMAND = "tfbigbatch prepare-ptb --source=FOLDER_WITH_THE_TEXTS --output_dir=PREPARED"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A prepared corpus.

    Attributes:
      train, valid, test: int32 [tokens], in [0, len(vocabulary)).
      vocabulary: words, in id order.
      token_counts: int64 [vocabulary], of the training tokens; None for a folder that was prepared without them.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    vocabulary: tuple[str, ...]
    token_counts: np.ndarray | None = None

    def target_counts(self) -> TokenCounts:
        """How often each word is to be predicted: the counts that the folder keeps, or those of the training text."""
        if self.token_counts is not None:
            return TokenCounts.of_manifest(self.token_counts)
        return TokenCounts(token_counts.of_tokens(self.train, len(self.vocabulary)), "counted now in the training text")


def require(data_dir: str | None) -> dict[str, Any]:
    """The content of a prepared corpus' manifest.json, not yet checked against its files.

    Raises:
      ValueError: the folder is not prepared.
    """
    if data_dir is None:
        raise InputError(f"--data_dir is missing: give a prepared corpus. To prepare one: {_COMMAND}")
    manifest = _manifest(expanded(data_dir))
    if manifest is None or not _is_whole(manifest):
        raise InputError(
            f"--data_dir={data_dir} is not a prepared corpus: it has no {_MANIFEST} of one. "
            f"Prepare one, then pass --data_dir=PREPARED: {_COMMAND}"
        )
    return manifest


def load(data_dir: str | None) -> Corpus:
    """The corpus that `prepare` wrote into `data_dir`.

    Raises:
      ValueError: the folder is not prepared, or a file is damaged.
    """
    manifest = require(data_dir)
    assert data_dir is not None
    data_dir = expanded(data_dir)
    again = f"Prepare it again: {_COMMAND} --overwrite"
    size, parts = manifest["vocabulary_size"], {}
    for split in SPLITS:
        path = os.path.join(data_dir, f"{split}.npy")
        try:
            tokens = files.read_array(path)
        except InputError as error:
            raise InputError(f"{error}. {again}") from None
        if tokens.dtype != np.int32 or tokens.shape != (manifest["tokens"][split],):
            raise InputError(
                f"{path} holds {tokens.dtype} {list(tokens.shape)}; {_MANIFEST} says "
                f"int32 [{manifest['tokens'][split]}]. {again}"
            )
        if not tokens.size:
            raise InputError(f"{path} holds no token. {again}")
        if tokens.min() < 0 or tokens.max() >= size:
            raise InputError(f"{path} holds numbers from {tokens.min()} to {tokens.max()}; expected 0 to {size - 1}.")
        parts[split] = tokens
    try:
        with files.open_regular(os.path.join(data_dir, _VOCABULARY), encoding="utf-8") as file:
            words = tuple(file.read().split("\n")[:-1])
    except (OSError, ValueError) as error:
        raise InputError(f"{os.path.join(data_dir, _VOCABULARY)} cannot be read ({error}). {again}") from None
    if len(words) != size:
        raise InputError(f"{data_dir}: {_VOCABULARY} holds {len(words)} words, {_MANIFEST} says {size}. {again}")
    return Corpus(**parts, vocabulary=words, token_counts=token_counts.load(data_dir, manifest, size, again))


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
            raise InputError(
                f"--source={folder}: expected one *{split}*.txt, such as ptb.{split}.txt; it {has}. "
                f"Name the files themselves: --train=... --valid=... --test=..."
            )
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
      The manifest; and whether the folder held this corpus already.

    Raises:
      ValueError: a text is missing, empty or not UTF-8; or the folder holds another corpus.
    """
    if vocabulary_size is not None and vocabulary_size < 2:
        raise InputError(
            f"--vocabulary_size={vocabulary_size}: expected 2 or more, since {END_OF_LINE} and {UNKNOWN} count."
        )
    sources = {split: {"file": os.path.basename(texts[split]), "sha256": _sha256(texts[split])} for split in SPLITS}
    asked = {"sources": sources, "asked_vocabulary_size": vocabulary_size}
    before = _manifest(output_dir)
    if before is not None and not overwrite:
        if all(before.get(name) == value for name, value in asked.items()):
            return before, True
        raise InputError(
            f"--output_dir={output_dir} holds a corpus of other texts or of another vocabulary size. "
            "Choose another folder, or pass --overwrite."
        )
    words = _vocabulary(texts["train"], vocabulary_size)
    encoded = {split: _encode(texts[split], words) for split in SPLITS}
    manifest: dict[str, Any] = {
        **asked,
        "vocabulary_size": len(words),
        "tokens": {split: len(tokens) for split, (tokens, _) in encoded.items()},
        "unknown": {split: unknown for split, (_, unknown) in encoded.items()},
    }
    try:
        os.makedirs(output_dir, exist_ok=True)
        if before is not None:
            # A crash from here on leaves no folder that mixes two corpora.
            os.remove(os.path.join(output_dir, _MANIFEST))
        for split, (tokens, _) in encoded.items():
            atomic_write(os.path.join(output_dir, f"{split}.npy"), functools.partial(np.save, arr=tokens))
        lines = "".join(f"{word}\n" for word in words)
        atomic_write(os.path.join(output_dir, _VOCABULARY), lambda file: file.write(lines.encode()))
        manifest |= token_counts.save(output_dir, token_counts.of_tokens(encoded["train"][0], len(words)))
        content = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        atomic_write(os.path.join(output_dir, _MANIFEST), lambda file: file.write(content.encode()))
    except OSError as error:
        raise InputError(f"--output_dir={output_dir} cannot be written: {error.strerror or error}.") from None
    return manifest, False


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
    with open(path, "rb") as file:
        text_files.skip_mark(file, path)
        for count, line in enumerate(file, 1):
            try:
                yield [*line.decode("utf-8").split(), END_OF_LINE]
            except UnicodeDecodeError as error:
                raise InputError(f"{path}, line {count}, {text_files.not_utf8(error, 'line')}") from None


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
            size = file.tell()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. {_texts_expected()}") from None
    if size == 0:
        raise InputError(f"{path} is empty. {_texts_expected()}")
    return digest.hexdigest()


def _texts_expected() -> str:
    return "Expected three plain texts: the Mikolov files ptb.train.txt, ptb.valid.txt and ptb.test.txt, or any others."


def _manifest(folder: str) -> dict[str, Any] | None:
    path = os.path.join(folder, _MANIFEST)
    again = f"Remove the folder and prepare it again: {_COMMAND}"
    try:
        with files.open_regular(path, encoding="utf-8") as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). {again}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected a dictionary. {again}")
    return content


def _is_whole(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest has the sizes of the corpus."""
    tokens = manifest.get("tokens")
    sizes = [manifest.get("vocabulary_size"), *(tokens.get(split) for split in SPLITS if isinstance(tokens, dict))]
    return len(sizes) == 1 + len(SPLITS) and all(type(size) is int for size in sizes)
