"""Manifest of prepared BERT pretraining data: sequence lengths and vocabulary, besides records/manifest.py.

The folder also holds vocab.txt, and train.token_counts.npy (stored_tokens.py).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfbigbatch.data import stored_tokens, tokenizer
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import tfrecord

KIND = record_manifest.Kind(
    what="BERT pretraining data",
    command="tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=PREPARED",
)
VOCABULARY = "vocab.txt"
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
# Fields of manifest.json, and attributes of a Manifest.
SHAPES: dict[str, type] = {"max_seq_length": int, "max_predictions_per_seq": int, "next_sentence": bool}


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest(stored_tokens.PreparedText):
    """Content of a prepared folder.

    Attributes:
      max_seq_length: T, tokens in a sequence, with special ones and padding.
      max_predictions_per_seq: P, maximum masked tokens in a sequence.
      next_sentence: True if sequences are pairs with a label.
      keys: features of a record with masks, by STANDARD_KEYS' keys; None for records without.
      vocabulary: of the ids.
      splits: 'train' and perhaps 'validation'.
      stored_counts: see stored_tokens.PreparedText.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool
    keys: dict[str, str] | None
    vocabulary: tokenizer.Vocabulary
    splits: dict[str, record_manifest.Split]
    stored_counts: np.ndarray | None = None

    def targets(self, record: bytes) -> np.ndarray:
        """The ids to predict of a record: the masked ones, or all but [CLS] and [SEP], which dynamic masks choose
        equally often."""
        if self.keys is None:
            ids = np.frombuffer(tfrecord.bytes_of(record, "ids"), self.id_type).astype(np.int64)
            return ids[(ids != self.vocabulary.classify) & (ids != self.vocabulary.separate)]
        found = tfrecord.values(record)
        labels, weights = (np.array(found[self.keys[name]]) for name in ("labels", "weights"))
        return labels[weights > 0].astype(np.int64)


def load(folder: str | None) -> Manifest:
    """The manifest of a prepared folder.

    Raises:
      ValueError: as stored_tokens.load.
    """

    def build(folder: str, content: dict[str, Any], texts: dict[str, Any]) -> Manifest:
        record_manifest.check_types(SHAPES, content)
        if content["keys"] is not None:
            record_manifest.check_types(dict.fromkeys(STANDARD_KEYS, str), content["keys"])
        return Manifest(**{name: content[name] for name in (*SHAPES, "keys")}, **texts)

    return stored_tokens.load(folder, KIND, VOCABULARY, tokenizer.Vocabulary.load, build)


def save(
    folder: str, manifest: Manifest, *, sha256: dict[str, str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Writes a prepared folder's manifest, with further fields `about`; see stored_tokens.save."""
    fields = {**(about or {}), **{name: getattr(manifest, name) for name in (*SHAPES, "keys")}}
    stored_tokens.save(folder, KIND, VOCABULARY, manifest, fields, sha256)
