"""Masks of masked language modelling (Devlin et al. 2018, section 3.1) as a pure function of (seed, epoch, record).

In NumPy, for records with static masks and for batches with dynamic ones (Liu et al. 2019, section 4.1): TensorFlow's
operations would take twice the processor time.

Random numbers are counter-based, a pure function of (key, index). A stream has a key of 64 bits, and its numbers are
SplitMix64's (Steele, Lea and Flood 2014): the finaliser of key + (i + 1) * golden ratio.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MASKED_FRACTION = 0.15
# Of the tokens chosen: 80% become [MASK], 10% a random token of the vocabulary, 10% stay.
_REPLACED_BELOW, _RANDOM_BELOW = 0.8, 0.9
_GOLDEN, _64_BITS = 0x9E3779B97F4A7C15, (1 << 64) - 1
# Numbers of so many bits are exact in float32.
_BITS = 24


def choose(
    may: np.ndarray, begins: np.ndarray, order_draws: np.ndarray, max_predictions: int, fraction: float
) -> np.ndarray:
    """The tokens to predict, bool [n, T].

    Their number is at most `fraction` of the maskable tokens, rounded, from 1 to `max_predictions`. Words are taken in
    random order; one with more tokens than are left is skipped, as in google-research/bert's
    create_pretraining_data.py, so a sequence of words that are all too long has none.

    Args:
      may, begins, max_predictions, fraction: as in `mask`.
      order_draws: int64 [n, T], random: word w of a sequence is taken at the rank of number w.
    """
    rows, length = may.shape
    word = np.where(may, np.cumsum(may & begins, axis=1) - 1, 0)
    places = np.arange(rows)[:, None] * length + word
    sizes: np.ndarray = np.bincount(places[may], minlength=rows * length).reshape(rows, length)
    ranks = np.where(sizes > 0, order_draws, 1 << _BITS)
    # Ranks made unique by position, so that the fastest sort gives the order of a stable one.
    order: np.ndarray = np.argsort(ranks * length + np.arange(length), axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)
    total = may.sum(axis=1)
    left = np.where(total > 0, np.clip(np.rint(fraction * total), 1, max_predictions), 0).astype(np.int64)
    taken, waiting = np.zeros_like(may), sizes > 0
    while (waiting := waiting & (sizes <= left[:, None])).any():
        # All consecutive words that fit; the next iteration skips the one that is too long.
        fits = waiting & (np.cumsum(np.where(waiting, sizes, 0), axis=1) <= left[:, None])
        taken |= fits
        waiting &= ~fits
        left -= np.where(fits, sizes, 0).sum(axis=1)
    chosen = np.zeros_like(may)
    np.put_along_axis(chosen, order, taken, axis=1)
    return may & np.take_along_axis(chosen, word, axis=1)


def mask(
    ids: np.ndarray,
    may: np.ndarray,
    begins: np.ndarray,
    keys: np.ndarray,
    *,
    max_predictions: int,
    mask_id: int,
    vocabulary_size: int,
    fraction: float = MASKED_FRACTION,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Masked sequences, and the predictions.

    Args:
      ids: integer [n, T].
      may: bool [n, T], the maskable tokens; the first, [CLS], is not.
      begins: bool [n, T], those that begin a word; the tokens up to the next one are masked together.
      keys: uint64 [n], of `keys_of`; they determine the masks.
      max_predictions: P.
      mask_id: id of [MASK].
      vocabulary_size: random tokens are in [0, vocabulary_size).
      fraction: of the maskable tokens to predict.

    Returns:
      (inputs, positions, labels, weights): int64 [n, T], int64 [n, P], int64 [n, P] and float32 [n, P]; the
      positions increase, and unused ones of the P = max_predictions are 0.
    """
    length, unit = ids.shape[1], 1 << _BITS
    draws = numbers_of(keys, length + 2 * max_predictions)
    order_draws, kinds, others = np.split(draws, [length, length + max_predictions], axis=1)
    chosen = choose(may, begins, order_draws, max_predictions, fraction)
    there = np.arange(max_predictions) < chosen.sum(axis=1)[:, None]
    positions = np.zeros(there.shape, np.int64)
    positions[there] = np.nonzero(chosen)[1]
    before = np.take_along_axis(ids, positions, axis=1).astype(np.int64)
    other = others * vocabulary_size >> _BITS
    after = np.where(kinds < int(_RANDOM_BELOW * unit), other, before)
    after = np.where(kinds < int(_REPLACED_BELOW * unit), mask_id, after)
    inputs = ids.astype(np.int64)
    # Unused predictions overwrite the first token, [CLS], with itself.
    np.put_along_axis(inputs, positions, np.where(there, after, before), axis=1)
    return inputs, positions, np.where(there, before, 0), there.astype(np.float32)


def words(
    ids: np.ndarray, first_length: np.ndarray, length: np.ndarray, continues: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The maskable tokens of sequences [CLS] A [SEP] B [SEP] or [CLS] A [SEP], and the beginnings of words.

    Args:
      ids: integer [n, T].
      first_length: [n], length including the first [SEP].
      length: [n], length including the last [SEP].
      continues: bool [vocabulary], the tokens that continue a word; None: each token is a word.

    Returns:
      (may, begins): bool [n, T] each, for `mask`.
    """
    positions = np.arange(ids.shape[1])
    may = (positions > 0) & (positions != first_length[:, None] - 1) & (positions < length[:, None] - 1)
    if continues is None:
        return may, may
    before = np.pad(may, [(0, 0), (1, 0)])[:, :-1]
    # A text that begins within a word: the rest of it counts as a word.
    return may, may & ~(continues[ids] & before)


def splitmix64(value: Any) -> np.ndarray:
    """SplitMix64's finaliser of uint64, an array of any shape."""
    value = np.asarray(value, np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return value ^ (value >> np.uint64(31))


def keys_of(seed: int, epoch: Any, numbers: Any) -> np.ndarray:
    """A key for each record of an epoch of a run: uint64 [n].

    Args:
      seed: the run's, any int.
      epoch: an integer, or an integer array of [n].
      numbers: integer array of [n].
    """
    run = splitmix64([((seed + 1) * _GOLDEN) & _64_BITS])
    of_epoch = splitmix64(run + (np.asarray(epoch, np.int64) + 1).astype(np.uint64))
    return splitmix64(of_epoch + np.asarray(numbers).astype(np.int64).astype(np.uint64))


def numbers_of(keys: np.ndarray, count: int) -> np.ndarray:
    """`count` numbers for each key: int64 [n, count], uniform in [0, 2^24)."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    return (splitmix64(keys[:, None] + steps) >> np.uint64(64 - _BITS)).astype(np.int64)
