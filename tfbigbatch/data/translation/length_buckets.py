"""A few static shapes for pairs of sentences: each pair is padded to the smallest that it fits.

The shapes are nested: (S, T) grow together, and the last one holds every pair. The bucket of a pair is the number of
its shape, and that of a batch is the largest of its pairs' buckets.
"""

import numpy as np

from tfbigbatch.errors import InputError

# Lengths between which to choose on each side: the choice goes through the pairs of all pairs of them.
_EDGES = 32


def choose(lengths, most):
    """The shapes for which the least is padding, where each pair is padded to its own bucket.

    Args:
      lengths: integer array of [pairs, 2], the lengths of sources and targets; at least one pair.
      most: how many shapes at most.

    Returns:
      tuple of (S, T), growing; the last one is that of the longest source and the longest target.
    """
    if most < 1:
        raise InputError(f"most_shapes={most}: expected 1 or more.")
    edges = [_edges(int(longest)) for longest in lengths.max(axis=0)]
    shapes = np.array([(source, target) for source in edges[0] for target in edges[1]])
    held = _held(lengths, edges).reshape(-1)
    inside = (shapes[:, None] >= shapes).all(axis=2)
    # What the pairs cost that fit a shape (row), but not a smaller one (column), if these are two in a row.
    added = np.where(inside, (held[:, None] - held) * shapes.sum(axis=1)[:, None], np.inf)
    cost, before = held * shapes.sum(axis=1).astype(float), []
    for _ in range(most - 1):
        total = added + cost
        before.append(total.argmin(axis=1))
        cost = total.min(axis=1)
    chosen = [len(shapes) - 1]
    for smaller in reversed(before):
        chosen.append(smaller[chosen[-1]])
    # One more shape may gain nothing; then one is chosen twice, or holds none.
    chosen = [shape for shape in dict.fromkeys(reversed(chosen)) if held[shape]]
    return tuple((int(source), int(target)) for source, target in shapes[chosen])


def buckets_of(lengths, shapes):
    """The bucket of each pair.

    Args:
      lengths: integer array of [pairs, 2].
      shapes: tuple of (S, T), growing.

    Returns:
      int32 array of [pairs], the number of the smallest shape that holds the pair.

    Raises:
      ValueError: the shapes do not grow, or the last one does not hold all pairs.
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
            "of the sentence included. Expected a last shape that holds both."
        )
    sides = [np.searchsorted(array[:, side], lengths[:, side]) for side in range(2)]
    return np.maximum(*sides).astype(np.int32)


def padding_share(lengths, shapes, buckets):
    """The share of the places that hold no token.

    Args:
      lengths: integer array of [pairs, 2].
      shapes: tuple of (S, T).
      buckets: the bucket that each pair is padded to, integer array of [pairs] or one for all.
    """
    places = np.array(shapes).sum(axis=1)[buckets]
    return float(1 - lengths.sum(dtype=np.int64) / np.broadcast_to(places, len(lengths)).sum(dtype=np.int64))


def _edges(longest):
    """Lengths up to `longest`, at most _EDGES, evenly apart."""
    return np.unique(np.ceil(np.linspace(0, longest, _EDGES + 1)[1:]).astype(int))


def _held(lengths, edges):
    """How many pairs each shape holds: int64 [source edges, target edges]."""
    places = [np.searchsorted(of_side, lengths[:, side]) for side, of_side in enumerate(edges)]
    sizes = [len(of_side) for of_side in edges]
    counts = np.bincount(places[0] * sizes[1] + places[1], minlength=sizes[0] * sizes[1]).reshape(sizes)
    return counts.cumsum(axis=0).cumsum(axis=1)
