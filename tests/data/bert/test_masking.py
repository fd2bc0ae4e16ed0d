import numpy as np
import pytest

from tfbigbatch.data.bert import masking

SIZE, MASK, ROWS, LENGTH = 1000, 4, 2000, 64
CONTINUES = np.arange(SIZE) % 3 == 0


def sequences(rows=ROWS, shortest=10):
    """(ids, first lengths, lengths) of padded pairs; [CLS] is 2, [SEP] 3."""
    random = np.random.default_rng(0)
    ids = random.integers(10, SIZE, (rows, LENGTH))
    lengths = random.integers(shortest, LENGTH + 1, rows)
    firsts = np.array([random.integers(3, length - 1) for length in lengths])
    ids[:, 0] = 2
    ids[np.arange(rows), firsts - 1] = ids[np.arange(rows), lengths - 1] = 3
    ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    return ids, firsts, lengths


def masked(ids, firsts, lengths, continues=None, most=LENGTH, epoch=0):
    may, begins = masking.words(ids, firsts, lengths, continues)
    keys = masking.keys_of(7, epoch, np.arange(len(ids)))
    return may, masking.mask(ids, may, begins, keys, max_predictions=most, mask_id=MASK, vocabulary_size=SIZE)


@pytest.mark.parametrize("continues", [None, CONTINUES])
def test_special_tokens_and_padding_are_never_masked_and_labels_are_the_tokens(continues):
    ids, firsts, lengths = sequences()
    may, (inputs, positions, labels, weights) = masked(ids, firsts, lengths, continues, most=12)
    there = weights == 1
    rows = np.broadcast_to(np.arange(ROWS)[:, None], there.shape)
    assert may[rows[there], positions[there]].all()
    assert set(ids[may]).isdisjoint({2, 3, 0}) and not may[ids == 0].any()
    np.testing.assert_array_equal(labels[there], ids[rows[there], positions[there]])
    assert (positions[~there] == 0).all() and (labels[~there] == 0).all()
    # The places grow, and nothing else has changed.
    assert (np.diff(positions, axis=1)[there[:, 1:]] > 0).all()
    changed = inputs != ids
    changed[rows[there], positions[there]] = False
    assert not changed.any()


def test_80_10_10():
    ids, firsts, lengths = sequences()
    _, (inputs, positions, labels, weights) = masked(ids, firsts, lengths)
    rows, slots = np.nonzero(weights)
    after, before = inputs[rows, positions[rows, slots]], labels[rows, slots]
    count = len(rows)
    np.testing.assert_allclose((after == MASK).mean(), 0.8, atol=4 * np.sqrt(0.16 / count) + 1 / SIZE)
    np.testing.assert_allclose((after == before).mean(), 0.1, atol=4 * np.sqrt(0.09 / count) + 1 / SIZE)
    random = after[(after != MASK) & (after != before)]
    np.testing.assert_allclose(np.histogram(random, 4, (0, SIZE))[0] / len(random), 0.25, atol=0.05)


def test_each_token_is_as_likely():
    ids, firsts, lengths = (part[:1].repeat(20000, axis=0) for part in sequences(1, shortest=LENGTH))
    may, (_, positions, _, weights) = masked(ids, firsts, lengths)
    counts = np.bincount(positions[weights == 1], minlength=LENGTH) / 20000
    share = weights[0].sum() / may[0].sum()
    np.testing.assert_allclose(counts[may[0]], share, atol=4.5 * np.sqrt(share / 20000))
    assert (counts[~may[0]] == 0).all()


def test_the_words_go_together_and_long_ones_are_passed_over():
    ids, firsts, lengths = sequences()
    may, begins = masking.words(ids, firsts, lengths, CONTINUES)
    draws = masking.numbers_of(masking.keys_of(0, 0, np.arange(ROWS)), LENGTH)
    chosen = masking.choose(may, begins, draws, max_predictions=9, fraction=masking.MASKED_FRACTION)
    assert begins[:, 1].all() and may[begins].all()
    for row in range(200):
        starts = np.flatnonzero(begins[row])
        words = [
            np.flatnonzero(may[row] & (np.arange(LENGTH) >= a) & (np.arange(LENGTH) < b))
            for a, b in zip(starts, [*starts[1:], LENGTH])
        ]
        aim = min(9, max(1, round(0.15 * may[row].sum())))
        left, expected = aim, np.zeros(LENGTH, bool)
        for rank in np.argsort(draws[row, : len(words)], kind="stable"):
            if len(words[rank]) <= left:
                expected[words[rank]] = True
                left -= len(words[rank])
        np.testing.assert_array_equal(chosen[row], expected)
