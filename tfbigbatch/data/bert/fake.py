"""Fake BERT pretraining data: sequences in which each word predicts the next."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest, target_counts
from tfbigbatch.data.bert.prepare import records
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.records.shards import write_split

_WORDS = 12
_SIZES = {"train": 64, "validation": 20}


def pretraining(
    folder: str, *, max_seq_length: int = 32, max_predictions_per_seq: int = 5, next_sentence: bool = True
) -> manifest.Manifest:
    """The manifest of 64 training and 20 validation sequences, with dynamic masks.

    Args:
      folder: existing folder for the records.
      max_seq_length, max_predictions_per_seq, next_sentence: as in the manifest.
    """
    vocabulary = tokenizer.Vocabulary([*tokenizer.SPECIAL, *(f"word{number}" for number in range(_WORDS))])
    settings = Settings(
        max_seq_length=max_seq_length, max_predictions_per_seq=max_predictions_per_seq, next_sentence=next_sentence
    )
    random, splits = np.random.RandomState(0), {}
    for name, count in _SIZES.items():
        sequences = [_sequence(random, vocabulary, settings) for _ in range(count)]
        splits[name] = write_split(folder, name, records.dynamic(sequences, settings, 2))
    without_counts = manifest.Manifest(
        masking=manifest.DYNAMIC,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        next_sentence=next_sentence,
        bytes_of_id=2,
        keys=manifest.STANDARD_KEYS,
        vocabulary=vocabulary,
        splits=splits,
    )
    return dataclasses.replace(without_counts, token_counts=target_counts.of(without_counts).counts)


def _sequence(random: np.random.RandomState, vocabulary: tokenizer.Vocabulary, settings: Settings) -> records.Sequence:
    """Consecutive words from a random one; a second segment continues them or starts at another word."""
    special = 3 if settings.next_sentence else 2
    size = random.randint(max(2, settings.max_seq_length // 2), settings.max_seq_length - special + 1)
    first = random.randint(1, size) if settings.next_sentence else size
    words = (np.arange(size) + random.randint(_WORDS)) % _WORDS
    label = int(settings.next_sentence and random.rand() < 0.5)
    # An offset of 1 to _WORDS - 1: never the word that would come next.
    words[first:] = (words[first:] + label * random.randint(1, _WORDS)) % _WORDS
    ids = (words + len(tokenizer.SPECIAL)).tolist()
    tokens = [vocabulary.classify, *ids[:first], vocabulary.separate]
    return tokens + ([*ids[first:], vocabulary.separate] if settings.next_sentence else []), first + 2, label
