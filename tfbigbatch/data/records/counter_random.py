"""Counter-based random numbers, a pure function of (key, index): the same in NumPy and TensorFlow.

A stream has a key of 64 bits, and its numbers are SplitMix64's (Steele, Lea and Flood 2014): the finaliser of
key + (i + 1) * golden ratio. Only NumPy's are here, so that nothing needs TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
# Numbers of so many bits are exact in float32.
BITS = 24
_MASK = (1 << 64) - 1


def splitmix64(value: Any) -> np.ndarray:
    """SplitMix64's finaliser of uint64, an array of any shape."""
    value = np.asarray(value, np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value ^ (value >> np.uint64(31))


def keys(seed: int, epoch: Any, numbers: Any) -> np.ndarray:
    """A key for each record of an epoch of a run: uint64 [n].

    Args:
      seed: the run's, any int.
      epoch: an integer, or an integer array of [n].
      numbers: integer array of [n].
    """
    run = splitmix64([((seed + 1) * GOLDEN) & _MASK])
    of_epoch = splitmix64(run + (np.asarray(epoch, np.int64) + 1).astype(np.uint64))
    return splitmix64(of_epoch + np.asarray(numbers).astype(np.int64).astype(np.uint64))


def draws(keys: np.ndarray, count: int) -> np.ndarray:
    """`count` numbers for each key: int64 [n, count], uniform in [0, 2^24)."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return (splitmix64(keys[:, None] + steps) >> np.uint64(64 - BITS)).astype(np.int64)
