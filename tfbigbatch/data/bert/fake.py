"""Fake BERT pretraining data: sequences in which each word predicts the next."""

from __future__ import annotations

import numpy as np

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import sequences
from tfbigbatch.data.records.shards import write_split

_WORDS, _LENGTH, _PREDICTIONS = 12, 32, 5
_SIZES = {"train": 64, "validation": 20}


def pretraining(folder: str) -> manifest.Manifest:
    """The manifest of 64 training and 20 validation pairs of segments, with dynamic masks; writes them to a folder."""
    vocabulary = tokenizer.Vocabulary([*tokenizer.SPECIAL, *(f"word{number}" for number in range(_WORDS))])
    random, splits = np.random.RandomState(0), {}
    for name, count in _SIZES.items():
        made = [_sequence(random, vocabulary) for _ in range(count)]
        records = [sequences.serialized(sequence, True, np.dtype("<u2")) for sequence in made]
        splits[name] = write_split(folder, name, records)
    return manifest.Manifest(_LENGTH, _PREDICTIONS, True, False, vocabulary, splits)


def _sequence(random: np.random.RandomState, vocabulary: tokenizer.Vocabulary) -> sequences.Sequence:
    """Consecutive words from a random one; the second segment continues them or starts at another word."""
    size = random.randint(_LENGTH // 2, _LENGTH - 2)
    first = random.randint(1, size)
    words = (np.arange(size) + random.randint(_WORDS)) % _WORDS
    label = int(random.rand() < 0.5)
    # An offset of 1 to _WORDS - 1: never the word that would come next.
    words[first:] = (words[first:] + label * random.randint(1, _WORDS)) % _WORDS
    ids, separate = (words + len(tokenizer.SPECIAL)).tolist(), vocabulary.separate
    return [vocabulary.classify, *ids[:first], separate, *ids[first:], separate], first + 2, label
