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
    edges = [_edges(int(longest)) for longest in lengths.max(axis=0)]
    shapes = np.array([(source, target) for source in edges[0] for target in edges[1]])
    held = _held(lengths, edges).reshape(-1)
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
      shapes: (S, T) in increasing order.

    Raises:
      ValueError: the shapes do not increase, or the last one does not fit all pairs.
    """
    array = np.array(shapes)
    if array.ndim != 2 or array.shape[1] != 2 or (array < 1).any() or (np.diff(array, axis=0) < 0).any():
        raise InputError(
            f"shapes={shapes}: expected pairs of a source's and a target's length, each at least as large as the one "
            "before it, such as ((16, 16), (32, 40))."
        )
    longest = lengths.max(axis=0)
    if (longest > array[-1]).any():
        raise InputError(
            f"shapes={shapes}: the longest source has {longest[0]} tokens and the longest target {longest[1]}, the end "
            "of the sentence included. Expected a last shape that fits both."
        )
    sides = [np.searchsorted(array[:, side], lengths[:, side]) for side in range(2)]
    return np.maximum(*sides).astype(np.int32)


def padding_fraction(lengths: np.ndarray, shapes: Sequence[tuple[int, int]], buckets: np.ndarray | int) -> float:
    """The fraction of positions that are padding.

    Args:
      lengths: integer [pairs, 2].
      shapes: (S, T).
      buckets: the bucket that each pair is padded to, integer [pairs], or one for all.
    """
    positions = np.array(shapes).sum(axis=1)[buckets]
    return float(1 - lengths.sum(dtype=np.int64) / np.broadcast_to(positions, len(lengths)).sum(dtype=np.int64))


def _edges(longest: int) -> np.ndarray:
    """Evenly spaced lengths up to `longest`, at most _EDGES."""
    return np.unique(np.ceil(np.linspace(0, longest, _EDGES + 1)[1:]).astype(int))


def _held(lengths: np.ndarray, edges: list[np.ndarray]) -> np.ndarray:
    """Number of pairs that fit each shape: int64 [source edges, target edges]."""
    indices = [np.searchsorted(of_side, lengths[:, side]) for side, of_side in enumerate(edges)]
    sizes = [len(of_side) for of_side in edges]
    counts = np.bincount(indices[0] * sizes[1] + indices[1], minlength=sizes[0] * sizes[1]).reshape(sizes)
    return counts.cumsum(axis=0).cumsum(axis=1)
