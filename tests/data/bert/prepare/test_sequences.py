import collections
import random

import numpy as np

from tfbigbatch.data.bert.prepare import sequences


def document(number, sentences=30):
    """Sentences whose ids tell the document and the place: 1000 * number + place."""
    choices, place, found = random.Random(number), 0, []
    for _ in range(sentences):
        size = choices.randint(1, 12)
        found.append([1000 * number + place + step for step in range(size)])
        place += size
    return found


def pairs_of(text, others, *, seeds=300, length=40, short_fraction=0.1):
    another = (lambda choices: choices.choice(others)) if others else None
    return [
        list(sequences.pairs(text, another, length=length, short_fraction=short_fraction, random=random.Random(seed)))
        for seed in range(seeds)
    ]


def is_run(tokens):
    return (np.diff(tokens) == 1).all()


def test_pairs_are_by_the_recipe():
    text, others = document(1), [document(2), document(3)]
    labels, full = collections.Counter(), collections.Counter()
    for pairs in pairs_of(text, others):
        for a, b, label in pairs:
            assert a and b and len(a) + len(b) <= 40
            assert is_run(a) and is_run(b) and a[0] // 1000 == 1
            # The next segment is of the same document and farther on; a random one is of another.
            assert b[0] // 1000 != 1 if label else b[0] > a[-1] and b[0] // 1000 == 1
            labels[label] += 1
            full[len(a) + len(b) == 40] += 1
    assert 0.46 < labels[1] / labels.total() < 0.56
    assert full[True] / full.total() > 0.7


def test_sentences_that_a_random_segment_displaced_are_not_lost():
    text = [[place] * 3 for place in range(40)]
    seen = collections.Counter()
    for pairs in pairs_of(text, [document(9)], seeds=50, short_fraction=0.0):
        firsts = {token for a, b, label in pairs for token in (a if label else a + b)}
        seen.update(firsts)
    # Only truncation loses a sentence.
    assert len(seen) == 40 and min(seen.values()) > 40


def test_without_another_document_every_segment_is_the_next():
    pairs = [pair for pairs in pairs_of(document(1), []) for pair in pairs]
    assert pairs and all(label == 0 and b[0] > a[-1] for a, b, label in pairs)
    assert pairs_of([[1, 2, 3]], [], seeds=3) == [[], [], []]
    alone = pairs_of([[1, 2, 3]], [[[5, 6]]], seeds=3)
    assert alone == [[([1, 2, 3], [5, 6], 1)]] * 3
