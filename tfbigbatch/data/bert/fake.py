"""Fake BERT pretraining data: sequences in which each word predicts the next."""

from __future__ import annotations

import numpy as np

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import sequences
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
    random, splits = np.random.RandomState(0), {}
    for name, count in _SIZES.items():
        made = [_sequence(random, vocabulary, max_seq_length, next_sentence) for _ in range(count)]
        records = [sequences.serialized(sequence, next_sentence, np.dtype("<u2")) for sequence in made]
        splits[name] = write_split(folder, name, records)
    return manifest.Manifest(
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        next_sentence=next_sentence,
        keys=None,
        vocabulary=vocabulary,
        splits=splits,
    )


def _sequence(
    random: np.random.RandomState, vocabulary: tokenizer.Vocabulary, length: int, next_sentence: bool
) -> sequences.Sequence:
    """Consecutive words from a random one; a second segment continues them or starts at another word."""
    special = 3 if next_sentence else 2
    size = random.randint(max(2, length // 2), length - special + 1)
    first = random.randint(1, size) if next_sentence else size
    words = (np.arange(size) + random.randint(_WORDS)) % _WORDS
    label = int(next_sentence and random.rand() < 0.5)
    # An offset of 1 to _WORDS - 1: never the word that would come next.
    words[first:] = (words[first:] + label * random.randint(1, _WORDS)) % _WORDS
    ids = (words + len(tokenizer.SPECIAL)).tolist()
    tokens = [vocabulary.classify, *ids[:first], vocabulary.separate]
    return tokens + ([*ids[first:], vocabulary.separate] if next_sentence else []), first + 2, label
