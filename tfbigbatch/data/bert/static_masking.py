"""Masked language modelling's masks (Devlin et al. 2018, section 3.1), in NumPy: as they are written into records.

`masking.py` makes the same masks in TensorFlow, bit for bit.
"""

import numpy as np

from tfbigbatch.data.records import counter_random

MASKED_SHARE = 0.15
# Of the tokens chosen: 80% become [MASK], 10% a random token of the vocabulary, 10% stay.
REPLACED_BELOW, RANDOM_BELOW = 0.8, 0.9


def choose(may, begins, order_draws, *, max_predictions, share=MASKED_SHARE):
    """Which tokens are to be predicted.

    The number aimed at is `share` of the tokens that may be, rounded, at least 1 and at most `max_predictions`.
    Words are taken in a random order; one that is longer than what is left is passed over, as in
    google-research/bert's create_pretraining_data.py. So a sequence of words that are all too long has none.

    Args:
      may: bool [n, T], the tokens that may be chosen.
      begins: bool [n, T], those that begin a word; the tokens up to the next one go together. All where each
        token counts by itself.
      order_draws: int64 [n, T], random: word w of a sequence is taken at the rank of number w.
      max_predictions: int.

    Returns:
      bool [n, T].
    """
    rows, length = may.shape
    word = np.where(may, np.cumsum(may & begins, axis=1) - 1, 0)
    places = np.arange(rows)[:, None] * length + word
    sizes = np.bincount(places[may], minlength=rows * length).reshape(rows, length)
    ranks = np.where(sizes > 0, order_draws, 1 << counter_random.BITS)
    # With its place behind it no rank is there twice, and the fastest sort gives the order of a stable one.
    order = np.argsort(ranks * length + np.arange(length), axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)
    total = may.sum(axis=1)
    left = np.where(total > 0, np.clip(np.rint(share * total), 1, max_predictions), 0).astype(np.int64)
    taken, waiting = np.zeros_like(may), sizes > 0
    while (waiting := waiting & (sizes <= left[:, None])).any():
        # All words that fit one after the other; the next one is too long, and the next turn passes it over.
        fits = waiting & (np.cumsum(np.where(waiting, sizes, 0), axis=1) <= left[:, None])
        taken |= fits
        waiting &= ~fits
        left -= np.where(fits, sizes, 0).sum(axis=1)
    chosen = np.zeros_like(may)
    np.put_along_axis(chosen, order, taken, axis=1)
    return may & np.take_along_axis(chosen, word, axis=1)


def mask(ids, may, begins, keys, *, max_predictions, mask_id, vocabulary_size, share=MASKED_SHARE):
    """Sequences with some of their tokens hidden, and what is to be predicted.

    Args:
      ids: integer [n, T].
      may, begins, max_predictions, share: see `choose`; the first token, [CLS], may not be chosen.
      keys: uint64 [n], of `counter_random.keys`: the masks are a function of it.
      mask_id: the id of [MASK].
      vocabulary_size: random tokens are in [0, vocabulary_size).

    Returns:
      (inputs, positions, labels, weights): int64 [n, T], int64 [n, P], int64 [n, P] and float32 [n, P]; the
      positions grow, and where there are fewer than P = max_predictions the rest is 0.
    """
    length, unit = ids.shape[1], 1 << counter_random.BITS
    draws = counter_random.draws(keys, length + 2 * max_predictions)
    order_draws, kinds, others = np.split(draws, [length, length + max_predictions], axis=1)
    chosen = choose(may, begins, order_draws, max_predictions=max_predictions, share=share)
    there = np.arange(max_predictions) < chosen.sum(axis=1)[:, None]
    positions = np.zeros(there.shape, np.int64)
    positions[there] = np.nonzero(chosen)[1]
    before = np.take_along_axis(ids, positions, axis=1).astype(np.int64)
    other = others * vocabulary_size >> counter_random.BITS
    after = np.where(kinds < int(RANDOM_BELOW * unit), other, before)
    after = np.where(kinds < int(REPLACED_BELOW * unit), mask_id, after)
    inputs = ids.astype(np.int64)
    # What is not there writes the first token, [CLS], over itself.
    np.put_along_axis(inputs, positions, np.where(there, after, before), axis=1)
    return inputs, positions, np.where(there, before, 0), there.astype(np.float32)


def words(ids, first_length, length, continues):
    """What may be masked of sequences [CLS] A [SEP] B [SEP], or [CLS] A [SEP], and where words begin.

    Args:
      ids: integer [n, T].
      first_length: [n], up to and with the first [SEP].
      length: [n], up to and with the last [SEP].
      continues: bool [vocabulary], the tokens that go on with a word; None where each token counts by itself.

    Returns:
      (may, begins): bool [n, T] each, for `mask`.
    """
    places = np.arange(ids.shape[1])
    may = (places > 0) & (places != first_length[:, None] - 1) & (places < length[:, None] - 1)
    if continues is None:
        return may, may
    before = np.pad(may, [(0, 0), (1, 0)])[:, :-1]
    # A text that was cut within a word begins with the rest of it, which is a word here.
    return may, may & ~(continues[ids] & before)
