"""Manifest of prepared BERT pretraining data: sequence lengths and vocabulary, besides records/manifest.py.

The folder also holds vocab.txt, and train.token_counts.npy (token_counts.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from typing import Any

import numpy as np

from tfbigbatch.data import token_counts, tokenizer
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

KIND = record_manifest.Kind(
    content="BERT pretraining data in TFRecords",
    format=1,
    what="BERT pretraining data",
    command="tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=PREPARED",
)
VOCABULARY = "vocab.txt"
DYNAMIC = "dynamic"
# array.array type codes by size of an id.
ID_CODES = {2: "H", 4: "I"}
_TYPES: dict[str, Any] = {
    "masking": str,
    "max_seq_length": int,
    "max_predictions_per_seq": int,
    "next_sentence": bool,
    "bytes_of_id": int,
    "keys": dict,
    "packed": bool,
}
# Attributes of a Manifest that are files of their own.
_FILES = ("vocabulary", "splits", "token_counts")
# Features of records with static masks: google-research/bert's names, and tf-models-official's newer ones.
STANDARD_KEYS = {
    "ids": "input_ids",
    "mask": "input_mask",
    "types": "segment_ids",
    "positions": "masked_lm_positions",
    "labels": "masked_lm_ids",
    "weights": "masked_lm_weights",
    "next_sentence": "next_sentence_labels",
}
NEWER_KEYS = {**STANDARD_KEYS, "ids": "input_word_ids", "types": "input_type_ids"}


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """Content of a prepared folder.

    Attributes:
      masking: 'dynamic' if the records have no masks, else how they were made.
      max_seq_length: T, tokens in a sequence, with special ones and padding.
      max_predictions_per_seq: P, maximum masked tokens in a sequence.
      next_sentence: whether sequences are pairs with a label.
      bytes_of_id: size of an id in a dynamic record, 2 or 4.
      keys: features of a record with masks, by STANDARD_KEYS' keys.
      vocabulary: of the ids.
      splits: 'train' and perhaps 'validation'.
      packed: whether a sequence holds several texts that must not attend to each other.
      token_counts: int64 [vocabulary], how often each token is a target in training; None for a folder that was
        prepared without them: see `target_counts.of`.
    """

    masking: str
    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool
    bytes_of_id: int
    keys: dict[str, str]
    vocabulary: tokenizer.Vocabulary
    splits: dict[str, record_manifest.Split]
    packed: bool = False
    token_counts: np.ndarray | None = None

    @property
    def dynamic(self) -> bool:
        """Whether the records have no masks."""
        return self.masking == DYNAMIC


def load(folder: str | None) -> Manifest:
    """The manifest of a prepared folder, checked against file sizes, indexes, vocabulary and counts.

    Raises:
      ValueError: as record_manifest.load; or vocab.txt or the counts have changed.
    """

    def build(content: dict[str, Any], splits: dict[str, record_manifest.Split]) -> Manifest:
        assert folder is not None
        path = os.path.join(folder, VOCABULARY)
        vocabulary = tokenizer.Vocabulary.load(path)
        if digest(vocabulary) != content["vocabulary_sha256"]:
            raise InputError(
                f"{path} is not the vocabulary that the text was prepared with: it has changed. {KIND.again}"
            )
        record_manifest.check_types(_TYPES, content)
        record_manifest.check_types(dict.fromkeys(STANDARD_KEYS, str), content["keys"])
        fields = [field.name for field in dataclasses.fields(Manifest) if field.name not in _FILES]
        return Manifest(
            **{name: content[name] for name in fields},
            vocabulary=vocabulary,
            splits=splits,
            token_counts=token_counts.load(folder, content, len(vocabulary), KIND.again),
        )

    return record_manifest.load(folder, KIND, build)


def save(
    folder: str, manifest: Manifest, *, sha256: dict[str, str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Writes vocab.txt, the counts, the indexes and then manifest.json, each atomically.

    Args:
      folder: where they go.
      manifest: what they describe.
      sha256: digests of the splits' files, by path, as far as they are known.
      about: further fields of manifest.json.

    Raises:
      ValueError: the folder cannot be written.
    """
    save_vocabulary(folder, manifest.vocabulary)
    fields = {
        field.name: getattr(manifest, field.name) for field in dataclasses.fields(Manifest) if field.name not in _FILES
    }
    fields |= token_counts.save(folder, manifest.token_counts)
    fields["vocabulary_sha256"] = digest(manifest.vocabulary)
    fields["vocabulary_size"] = len(manifest.vocabulary)
    record_manifest.save(folder, KIND, manifest.splits, {**(about or {}), **fields}, sha256=sha256)


def save_vocabulary(folder: str, vocabulary: tokenizer.Vocabulary) -> str:
    """Writes vocab.txt atomically; returns its path.

    Raises:
      ValueError: the folder cannot be written.
    """
    path = os.path.join(folder, VOCABULARY)
    try:
        atomic_write(path, lambda file: file.write(_text(vocabulary)))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path


def read(folder: str) -> dict[str, Any] | None:
    """The content of manifest.json; None if the folder has no manifest of this kind.

    Raises:
      ValueError: it cannot be read or has a later format.
    """
    return record_manifest.read(folder, KIND)


def is_whole(folder: str) -> bool:
    """Whether a folder is completely prepared."""
    try:
        load(folder)
    except InputError:
        return False
    return True


def digest(vocabulary: tokenizer.Vocabulary) -> str:
    """SHA-256 of a vocabulary, in hexadecimal."""
    return hashlib.sha256(_text(vocabulary)).hexdigest()


def _text(vocabulary: tokenizer.Vocabulary) -> bytes:
    return "".join(f"{token}\n" for token in vocabulary.tokens).encode()
