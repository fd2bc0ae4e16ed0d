"""Manifest of prepared BERT pretraining data: sequence lengths and vocabulary, besides records/manifest.py.

The folder also holds vocab.txt, and train.token_counts.npy (prepared_text.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbigbatch.data import prepared_text, tokenizer
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import tfrecord

KIND = record_manifest.Kind(
    what="BERT pretraining data",
    command="tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=PREPARED",
)
VOCABULARY = "vocab.txt"
# Features of records with masks, by google-research/bert's names: of T values, of P, and of one where they are pairs.
OF_TOKENS = ("input_ids", "input_mask", "segment_ids")
OF_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
NEXT_SENTENCE = "next_sentence_labels"
# Fields of manifest.json, and attributes of a Manifest.
_FIELDS = {"max_seq_length": int, "max_predictions_per_seq": int, "next_sentence": bool, "masked": bool}


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest(prepared_text.PreparedText):
    """Content of a prepared folder.

    Attributes:
      max_seq_length: T, tokens in a sequence, with special ones and padding.
      max_predictions_per_seq: P, maximum masked tokens in a sequence.
      next_sentence: True if sequences are pairs with a label.
      masked: True if the records have masks.
      vocabulary: of the ids.
      splits: 'train' and perhaps 'validation'.
      stored_counts: see prepared_text.PreparedText.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool
    masked: bool
    vocabulary: tokenizer.Vocabulary
    splits: dict[str, record_manifest.Split]
    stored_counts: np.ndarray | None = None

    def targets(self, record: bytes) -> np.ndarray:
        """The ids to predict of a record: the masked ones, or all but [CLS] and [SEP], which dynamic masks choose
        equally often."""
        if not self.masked:
            ids = np.frombuffer(tfrecord.bytes_of(record, "ids"), self.id_type).astype(np.int64)
            return ids[(ids != self.vocabulary.classify) & (ids != self.vocabulary.separate)]
        found = tfrecord.values(record)
        labels, weights = (np.array(found[name]) for name in OF_PREDICTIONS[1:])
        return labels[weights > 0].astype(np.int64)


def load(folder: str | None) -> Manifest:
    """The manifest of a prepared folder.

    Raises:
      ValueError: as record_manifest.loading and prepared_text.read.
    """
    with record_manifest.loading(folder, KIND) as (folder, content, splits):
        texts = prepared_text.read(folder, content, splits, VOCABULARY, tokenizer.Vocabulary.load)
        record_manifest.check_types(_FIELDS, content)
        return Manifest(**{name: content[name] for name in _FIELDS}, **texts)


def save(folder: str, manifest: Manifest, about: Mapping[str, Any]) -> None:
    """Writes a prepared folder's manifest, with further fields `about`; see prepared_text.save."""
    fields = {**about, **{name: getattr(manifest, name) for name in _FIELDS}}
    prepared_text.save(folder, KIND, VOCABULARY, manifest, fields)
