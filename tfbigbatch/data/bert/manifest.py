"""Manifest of prepared BERT pretraining data: sequence lengths and vocabulary, besides records/manifest.py.

The folder also holds vocab.txt, and train.token_counts.npy (stored_tokens.py).
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import numpy as np

from tfbigbatch.data import stored_tokens, tokenizer
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import tfrecord
from tfbigbatch.errors import InputError

KIND = record_manifest.Kind(
    content="BERT pretraining data in TFRecords",
    format=1,
    what="BERT pretraining data",
    command="tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=PREPARED",
)
VOCABULARY = "vocab.txt"
DYNAMIC = "dynamic"
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
# Fields of manifest.json that are attributes of a Manifest.
_FIELDS: dict[str, type] = {
    "masking": str,
    "max_seq_length": int,
    "max_predictions_per_seq": int,
    "next_sentence": bool,
    "keys": dict,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """Content of a prepared folder.

    Attributes:
      masking: 'dynamic' if the records have no masks, else how they were made.
      max_seq_length: T, tokens in a sequence, with special ones and padding.
      max_predictions_per_seq: P, maximum masked tokens in a sequence.
      next_sentence: True if sequences are pairs with a label.
      keys: features of a record with masks, by STANDARD_KEYS' keys.
      vocabulary: of the ids.
      splits: 'train' and perhaps 'validation'.
      stored_counts: `token_counts` as the folder keeps them; None to count them.
    """

    masking: str
    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool
    keys: dict[str, str]
    vocabulary: tokenizer.Vocabulary
    splits: dict[str, record_manifest.Split]
    stored_counts: np.ndarray | None = None

    @property
    def dynamic(self) -> bool:
        """True if the records have no masks."""
        return self.masking == DYNAMIC

    @property
    def id_type(self) -> np.dtype:
        """The type of an id in a record without masks."""
        return stored_tokens.id_type(len(self.vocabulary))

    @functools.cached_property
    def token_counts(self) -> np.ndarray:
        """The number of times that each token is a target in training: int64 [vocabulary].

        Dynamic masks choose each token but [CLS] and [SEP] equally often, so these are counted; of records with masks,
        the tokens that are masked.
        """
        if self.stored_counts is not None:
            return self.stored_counts
        targets = self._maskable if self.dynamic else self._masked
        return stored_tokens.counts(self.splits["train"], targets, len(self.vocabulary))

    def _maskable(self, record: bytes) -> np.ndarray:
        ids = np.frombuffer(tfrecord.bytes_of(record, "ids"), self.id_type).astype(np.int64)
        return ids[(ids != self.vocabulary.classify) & (ids != self.vocabulary.separate)]

    def _masked(self, record: bytes) -> np.ndarray:
        found = tfrecord.values(record)
        labels, weights = (np.array(found[self.keys[name]]) for name in ("labels", "weights"))
        return labels[weights > 0].astype(np.int64)


def load(folder: str | None) -> Manifest:
    """The manifest of a prepared folder, checked against file sizes, indexes, vocabulary and counts.

    Raises:
      ValueError: as record_manifest.load; or vocab.txt or the counts have changed.
    """

    def build(content: dict[str, Any], splits: dict[str, record_manifest.Split]) -> Manifest:
        assert folder is not None
        path = os.path.join(folder, VOCABULARY)
        vocabulary = tokenizer.Vocabulary.load(path)
        stored_tokens.check_vocabulary(path, vocabulary.digest, content["vocabulary_sha256"], KIND.again)
        record_manifest.check_types(_FIELDS, content)
        record_manifest.check_types(dict.fromkeys(STANDARD_KEYS, str), content["keys"])
        digest = content["token_counts_sha256"]
        return Manifest(
            **{name: content[name] for name in _FIELDS},
            vocabulary=vocabulary,
            splits=splits,
            stored_counts=stored_tokens.read_array(folder, stored_tokens.COUNTS, digest, KIND.again),
        )

    return record_manifest.load(folder, KIND, build)


def save(
    folder: str, manifest: Manifest, *, sha256: dict[str, str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Writes vocab.txt, the counts, the indexes and then manifest.json, each atomically.

    Args:
      folder: where they go; created if missing.
      manifest: what they describe.
      sha256: digests of the splits' files, by path, as far as they are known.
      about: further fields of manifest.json.

    Raises:
      ValueError: the folder cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    stored_tokens.write(folder, VOCABULARY, manifest.vocabulary.content)
    fields = {name: getattr(manifest, name) for name in _FIELDS} | {
        "vocabulary_sha256": manifest.vocabulary.digest,
        "vocabulary_size": len(manifest.vocabulary),
        "token_counts_sha256": stored_tokens.write_array(folder, stored_tokens.COUNTS, manifest.token_counts),
    }
    record_manifest.save(folder, KIND, manifest.splits, {**(about or {}), **fields}, sha256=sha256)


def is_whole(folder: str) -> bool:
    """True if a folder is completely prepared."""
    try:
        load(folder)
    except InputError:
        return False
    return True
