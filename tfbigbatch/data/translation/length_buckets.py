"""Length buckets: a few static shapes (S, T), each pair of sentences padded to the smallest that fits.

The shapes are nested, and the last one fits every pair. A pair's bucket is the index of its shape; a batch's bucket is
the largest of its pairs'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfbigbatch.errors import InputError

# Candidate lengths on each side; the cost of the choice grows with their fourth power.
_EDGES = 32
Shapes = tuple[tuple[int, int], ...]


def choose(lengths: np.ndarray, most: int) -> Shapes:
    """The shapes with the least padding if each pair is padded to its own bucket.

    Args:
      lengths: integer [pairs, 2] of sources and targets; at least one pair.
      most: maximum number of shapes.

    Returns:
      (S, T) in increasing order; the last one is the longest source and the longest target.
    """
    if most < 1:
        raise InputError(f"most_shapes={most}: expected 1 or more.")
    # Evenly spaced up to the longest.
    edges = [
        np.unique(np.ceil(np.linspace(0, int(longest), _EDGES + 1)[1:]).astype(int)) for longest in lengths.max(axis=0)
    ]
    shapes = np.array([(source, target) for source in edges[0] for target in edges[1]])
    # Pairs that fit each shape.
    sizes = [len(side) for side in edges]
    first, second = (np.searchsorted(side, lengths[:, number]) for number, side in enumerate(edges))
    held = np.bincount(first * sizes[1] + second, minlength=sizes[0] * sizes[1]).reshape(sizes)
    held = held.cumsum(axis=0).cumsum(axis=1).reshape(-1)
    inside = (shapes[:, None] >= shapes).all(axis=2)
    # Cost of the pairs that fit one shape (row) but not a smaller one (column), if these are neighbours.
    added = np.where(inside, (held[:, None] - held) * shapes.sum(axis=1)[:, None], np.inf)
    cost, before = held * shapes.sum(axis=1).astype(float), []
    for _ in range(most - 1):
        total = added + cost
        before.append(total.argmin(axis=1))
        cost = total.min(axis=1)
    chosen = [len(shapes) - 1]
    for smaller in reversed(before):
        chosen.append(smaller[chosen[-1]])
    # A shape that gains nothing is chosen twice, or is empty.
    chosen = [shape for shape in dict.fromkeys(reversed(chosen)) if held[shape]]
    return tuple((int(source), int(target)) for source, target in shapes[chosen])


def buckets_of(lengths: np.ndarray, shapes: Sequence[tuple[int, int]]) -> np.ndarray:
    """The bucket of each pair, int32 [pairs]: the index of the smallest shape that fits it.

    Args:
      lengths: integer [pairs, 2].
      shapes: (S, T) in increasing order; the last one fits every pair.
    """
    array = np.array(shapes)
    sides = [np.searchsorted(array[:, side], lengths[:, side]) for side in range(2)]
    return np.maximum(*sides).astype(np.int32)
