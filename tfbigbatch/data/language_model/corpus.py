"""A plain-text corpus as arrays of token numbers: prepared once, by words, then read as it lies.

A prepared folder holds train.npy, valid.npy and test.npy (int32, [tokens]), vocab.txt (a word a line,
in the order of their numbers) and manifest.json, which is written last: without it a folder is not whole.
"""

import array
import collections
import dataclasses
import glob
import hashlib
import json
import os

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.files import atomic_write

SPLITS = ("train", "valid", "test")
END_OF_LINE, UNKNOWN = "<eos>", "<unk>"
_MANIFEST, _VOCABULARY = "manifest.json", "vocab.txt"
_COMMAND = "tfbigbatch prepare-ptb --source=FOLDER_WITH_THE_TEXTS --output_dir=PREPARED"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A prepared corpus.

    Attributes:
      train, valid, test: int32 arrays of [tokens], values in [0, len(vocabulary)).
      vocabulary: the words, in the order of their numbers.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    vocabulary: tuple


def load(data_dir):
    """The Corpus that `prepare` wrote into `data_dir`.

    Raises:
      ValueError: the folder is not a prepared one, or a file of it is damaged.
    """
    if data_dir is None:
        raise InputError(f"--data_dir is missing: give a prepared corpus. To prepare one: {_COMMAND}")
    manifest = _manifest(data_dir)
    if manifest is None or not _is_whole(manifest):
        raise InputError(
            f"--data_dir={data_dir} is not a prepared corpus: it has no {_MANIFEST} of one. "
            f"Prepare one, then pass --data_dir=PREPARED: {_COMMAND}"
        )
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
        with open(os.path.join(data_dir, _VOCABULARY), encoding="utf-8") as file:
            words = tuple(file.read().split("\n")[:-1])
    except (OSError, ValueError) as error:
        raise InputError(f"{os.path.join(data_dir, _VOCABULARY)} cannot be read ({error}). {again}") from None
    if len(words) != size:
        raise InputError(f"{data_dir}: {_VOCABULARY} holds {len(words)} words, {_MANIFEST} says {size}. {again}")
    return Corpus(**parts, vocabulary=words)


def find_texts(folder):
    """The training, validation and test text of a folder: its .txt (or .tokens) files by these words in their names.

    Returns:
      Dictionary from 'train', 'valid' and 'test' to paths.

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


def prepare(texts, output_dir, *, vocabulary_size=None, overwrite=False):
    """Turns three texts into a prepared folder, line by line.

    Words are what white space separates; each line, an empty one too, ends in one <eos>. The vocabulary
    is that of the training text, by frequency and then by alphabet, with <eos> and <unk> in any case;
    a word outside of it is <unk>.

    Args:
      texts: dictionary from 'train', 'valid' and 'test' to paths of UTF-8 texts.
      output_dir: the prepared folder; made where it does not exist.
      vocabulary_size: None for all words of the training text, or how many stay, <eos> and <unk> included.
      overwrite: replace a folder that was prepared from other texts or at another size.

    Returns:
      (the manifest as a dictionary, True where the folder held this very corpus already).

    Raises:
      ValueError: a text is missing, empty or not UTF-8; or the folder holds another corpus.
    """
    if vocabulary_size is not None and vocabulary_size < 2:
        raise InputError(
            f"--vocabulary_size={vocabulary_size}: expected 2 or more, since {END_OF_LINE} and {UNKNOWN} count."
        )
    asked = {
        "sources": {
            split: {"file": os.path.basename(texts[split]), "sha256": _sha256(texts[split])} for split in SPLITS
        },
        "asked_vocabulary_size": vocabulary_size,
    }
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
    manifest = {
        **asked,
        "vocabulary_size": len(words),
        "tokens": {split: len(tokens) for split, (tokens, _) in encoded.items()},
        "unknown": {split: unknown for split, (_, unknown) in encoded.items()},
    }
    try:
        os.makedirs(output_dir, exist_ok=True)
        if before is not None:
            # A crash from here on leaves no folder that is half of one corpus and half of another.
            os.remove(os.path.join(output_dir, _MANIFEST))
        for split, (tokens, _) in encoded.items():
            atomic_write(os.path.join(output_dir, f"{split}.npy"), lambda file, tokens=tokens: np.save(file, tokens))
        atomic_write(
            os.path.join(output_dir, _VOCABULARY), lambda file: file.writelines(f"{w}\n".encode() for w in words)
        )
        content = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        atomic_write(os.path.join(output_dir, _MANIFEST), lambda file: file.write(content.encode()))
    except OSError as error:
        raise InputError(f"--output_dir={output_dir} cannot be written: {error.strerror or error}.") from None
    return manifest, False


def _vocabulary(path, size):
    """Dictionary from the words that stay to their numbers, in their order."""
    counts = collections.Counter(word for line in _lines(path) for word in line)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if size is not None:
        # <eos> and <unk> stay whatever their rank; the rarest of the others make room.
        others = [word for word in ordered if word not in (END_OF_LINE, UNKNOWN)]
        kept = {*others[: size - 2], END_OF_LINE, UNKNOWN}
        ordered = [word for word in ordered if word in kept]
    if UNKNOWN not in ordered:
        ordered.append(UNKNOWN)
    return {word: number for number, word in enumerate(ordered)}


def _encode(path, words):
    """(int32 array of the tokens' numbers, how many became <unk> that were not in the text)."""
    unknown_number, unknown, numbers = words[UNKNOWN], 0, array.array("i")
    for line in _lines(path):
        for word in line:
            number = words.get(word)
            if number is None:
                number, unknown = unknown_number, unknown + 1
            numbers.append(number)
    return np.frombuffer(numbers, np.intc).astype(np.int32), unknown


def _lines(path):
    """Each line's words and <eos>; one line in memory at a time."""
    with open(path, "rb") as file:
        for count, line in enumerate(file, 1):
            try:
                yield [*line.decode("utf-8").split(), END_OF_LINE]
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}, line {count}, is not UTF-8 ({error.reason}, byte {error.start}). Convert the text."
                ) from None


def _sha256(path):
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


def _texts_expected():
    return "Expected three plain texts: the Mikolov files ptb.train.txt, ptb.valid.txt and ptb.test.txt, or any others."


def _manifest(folder):
    path = os.path.join(folder, _MANIFEST)
    again = f"Remove the folder and prepare it again: {_COMMAND}"
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). {again}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected a dictionary. {again}")
    return content


def _is_whole(manifest):
    """Whether a manifest says of what sizes the corpus is."""
    tokens = manifest.get("tokens")
    sizes = [manifest.get("vocabulary_size"), *(tokens.get(split) for split in SPLITS if isinstance(tokens, dict))]
    return len(sizes) == 1 + len(SPLITS) and all(type(size) is int for size in sizes)
