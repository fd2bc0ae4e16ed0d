"""A fake corpus: most words are predicted by the one before."""

from __future__ import annotations

import numpy as np

from tfbigbatch.data.language_model.corpus import Corpus

_WORDS, _SIZES = 12, (2000, 300, 250)


def text() -> Corpus:
    """A corpus of 12 words, with 2,000, 300 and 250 tokens in training, validation and test."""
    random = np.random.RandomState(0)
    parts = []
    for size in _SIZES:
        steps = np.where(random.rand(size) < 0.8, 1, random.randint(0, _WORDS, size))
        parts.append((np.cumsum(steps) % _WORDS).astype(np.int32))
    train, valid, test = parts
    return Corpus(train, valid, test, vocabulary=tuple(f"word{number}" for number in range(_WORDS)))
