"""Manifest of prepared sentence pairs: vocabulary, lengths and texts, besides records/manifest.py.

The folder also holds vocabulary.model, the sentencepiece model; train.lengths.npy etc., uint16 [records, 2], the pieces
of each source and target sentence; and for held-out sets validation.source.txt, validation.reference.txt etc., the raw
lines; and train.token_counts.npy (token_counts.py).

A record is a tf.train.Example of 'source' and 'target', little-endian ids without BEGIN and END, and 'source_length'
and 'target_length', int64, their numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from typing import Any

import numpy as np

from tfbigbatch.data import token_counts
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.files import atomic_write

KIND = record_manifest.Kind(
    content="translation pairs in TFRecords",
    format=1,
    what="pairs of sentences",
    command=(
        "tfbigbatch prepare-wmt --source_files=train.en --target_files=train.de --valid_source_files=valid.en "
        "--valid_target_files=valid.de --test_source_files=test.en --test_target_files=test.de --output_dir=PREPARED"
    ),
)
VOCABULARY = "vocabulary.model"
# Names of the two sides in a record, and in a held-out set.
SIDES, TEXTS = ("source", "target"), ("source", "reference")


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """Content of a prepared folder.

    Attributes:
      folder: its path.
      bytes_of_id: size of an id in a record, 2 or 4.
      vocabulary: of both languages.
      splits: 'train' and perhaps 'validation', 'test', 'test_2' and so on.
      lengths: uint16 [records, 2] by split.
      token_counts: int64 [vocabulary], how often each piece is to be predicted in training; None for a folder that was
        prepared without them: see `target_counts.of`.
    """

    folder: str
    bytes_of_id: int
    vocabulary: translation_vocabulary.Vocabulary
    splits: dict[str, record_manifest.Split]
    lengths: dict[str, np.ndarray]
    token_counts: np.ndarray | None = None

    def texts(self, split: str) -> tuple[list[str], ...]:
        """The raw lines of a held-out set, without line ends: (sources, references).

        Raises:
          ValueError: the set has no texts, or not one per record.
        """
        found = []
        for path in text_paths(self.folder, split):
            try:
                with files.open_regular(path, encoding="utf-8", newline="\n") as file:
                    lines = [line.rstrip("\r\n") for line in file]
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{path} cannot be read ({error}). {KIND.again}") from None
            expected = self.splits[split].examples
            if len(lines) != expected:
                raise InputError(f"{path} has {len(lines):,} lines; the set has {expected:,} sentences. {KIND.again}")
            found.append(lines)
        return tuple(found)


def bytes_of_id(vocabulary: translation_vocabulary.Vocabulary) -> int:
    """Size of an id in a record."""
    return 2 if len(vocabulary) <= 1 << 16 else 4


def text_paths(folder: str, split: str) -> tuple[str, ...]:
    """The files of a held-out set's raw lines: (sources, references)."""
    return tuple(os.path.join(folder, f"{split}.{kind}.txt") for kind in TEXTS)


def load(folder: str | None) -> Manifest:
    """The manifest of a prepared folder, checked against file sizes, indexes, lengths, counts and vocabulary.

    Raises:
      ValueError: as record_manifest.load; or the vocabulary, the lengths or the counts have changed.
    """

    def build(content: dict[str, Any], splits: dict[str, record_manifest.Split]) -> Manifest:
        assert folder is not None
        record_manifest.check_types({"bytes_of_id": int, "lengths_sha256": dict}, content)
        path = os.path.join(folder, VOCABULARY)
        vocabulary = translation_vocabulary.Vocabulary.load(path)
        if vocabulary.digest != content["vocabulary_sha256"]:
            raise InputError(
                f"{path} is not the vocabulary that the text was prepared with: it has changed. {KIND.again}"
            )
        lengths = {name: _lengths(folder, name, digest) for name, digest in content["lengths_sha256"].items()}
        counts = token_counts.load(folder, content, len(vocabulary), KIND.again)
        if content["bytes_of_id"] != bytes_of_id(vocabulary):
            raise ValueError(f"bytes_of_id is {content['bytes_of_id']}")
        return Manifest(folder, content["bytes_of_id"], vocabulary, splits, lengths, counts)

    return record_manifest.load(folder, KIND, build)


def save(
    folder: str, manifest: Manifest, *, sha256: dict[str, str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Writes the vocabulary, the lengths, the counts, the indexes and then manifest.json, each atomically.

    Args:
      folder: where they go.
      manifest: what they describe.
      sha256: digests of the splits' files, by path, as far as they are known.
      about: further fields of manifest.json.

    Raises:
      ValueError: the folder cannot be written.
    """
    translation_vocabulary.save(manifest.vocabulary, folder, VOCABULARY)
    for name, lengths in manifest.lengths.items():
        path = _lengths_path(folder, name)
        try:
            atomic_write(path, functools.partial(np.save, arr=lengths))
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    fields = {
        "bytes_of_id": manifest.bytes_of_id,
        "vocabulary_sha256": manifest.vocabulary.digest,
        "vocabulary_size": len(manifest.vocabulary),
        "lengths_sha256": {name: _digest(lengths) for name, lengths in manifest.lengths.items()},
        **token_counts.save(folder, manifest.token_counts),
    }
    record_manifest.save(folder, KIND, manifest.splits, {**(about or {}), **fields}, sha256=sha256)


def read(folder: str) -> dict[str, Any] | None:
    """The content of manifest.json; None if the folder has no manifest of this kind.

    Raises:
      ValueError: it cannot be read or has a later format.
    """
    return record_manifest.read(folder, KIND)


def is_whole(folder: str) -> bool:
    """Whether a folder is completely prepared, with the raw lines of its held-out sets."""
    try:
        manifest = load(folder)
    except InputError:
        return False
    return all(os.path.exists(path) for name in manifest.splits if name != "train" for path in text_paths(folder, name))


def _lengths_path(folder: str, split: str) -> str:
    return os.path.join(folder, f"{split}.lengths.npy")


def _lengths(folder: str, split: str, digest: str) -> np.ndarray:
    path = _lengths_path(folder, split)
    try:
        lengths = files.read_array(path)
    except InputError as error:
        raise InputError(f"{error}. {KIND.again}") from None
    if _digest(lengths) != digest:
        raise InputError(f"{path} does not hold the lengths of the records: it is another's or damaged. {KIND.again}")
    return lengths


def _digest(lengths: np.ndarray) -> str:
    return hashlib.sha256(lengths.astype("<u2").tobytes()).hexdigest()
