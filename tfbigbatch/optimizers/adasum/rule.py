"""Adasum's formula: the vectors of several workers combined into one, layer by layer.

Maleki et al. 2020 (arXiv:2006.02924), equation 2: a and b become

    (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b,

their sum where they are orthogonal and their mean where they are equal. More vectors are combined in a
binary tree, ((01)(23)); the last of an odd number waits for the next level.

All coefficients of a tree follow from the dot products of its leaves. So a worker needs a part of every
vector only: the parts' dot products are added up, a few numbers for each layer.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

# Leaves of one tree of dot products. Those of n leaves grow as n^2, and what rounding does to them with its depth.
_LEAVES = 8
# |a|^2 below which a counts as zero; in float64 as Horovod has it.
_ZERO = {tf.float64: 1.5e-154, tf.float32: 1.2e-38}


def coefficients(products: tf.Tensor) -> tf.Tensor:
    """The coefficient of each vector in their sum.

    Args:
      products: [..., n, n], dot products of n vectors; n is a power of 2. A vector of zeros changes nothing.

    Returns:
      [..., n], of the same dtype.
    """
    n = products.shape[-1]
    # A node of the tree as its coefficients over the leaves.
    nodes = tf.eye(n, batch_shape=products.shape[:-2], dtype=products.dtype)
    while nodes.shape[-2] > 1:
        dots = tf.linalg.matmul(nodes @ products, nodes, transpose_b=True)
        squares = tf.linalg.diag_part(dots)
        between = tf.linalg.diag_part(dots, k=1)[..., 0::2]
        left, right = (_coefficient(between, squares[..., side::2]) for side in (0, 1))
        nodes = left[..., tf.newaxis] * nodes[..., 0::2, :] + right[..., tf.newaxis] * nodes[..., 1::2, :]
    return nodes[..., 0, :]


def _coefficient(dot: tf.Tensor, square: tf.Tensor) -> tf.Tensor:
    is_zero = square < _ZERO[square.dtype]
    one = tf.ones_like(square)
    return tf.where(is_zero, one, 1.0 - dot / (2.0 * tf.where(is_zero, one, square)))


def combine(
    layers: list[tf.Tensor],
    total: Callable[[tf.Tensor], tf.Tensor] = lambda products: products,
    dtype: tf.DType = tf.float64,
    leaves: int = _LEAVES,
) -> list[tf.Tensor]:
    """Combines the vectors of n workers, or equal parts of them, layer by layer.

    Args:
      layers: list of [n, size], a worker's vector in each row; a layer's rows may be parts.
      total: function that adds dot products up over all parts.
      dtype: of the dot products. Opposite vectors cancel in them: in float32 keep `leaves` at 2.
      leaves: vectors to a tree of dot products, a power of 2; more are combined tree by tree.

    Returns:
      List of [size], float32 or wider.
    """
    layers = [tf.cast(rows, wide(rows.dtype)) for rows in layers]
    while layers[0].shape[0] > 1:
        workers = layers[0].shape[0]
        width = min(leaves, 1 << (workers - 1).bit_length())
        layers = [_in_trees(rows, width) for rows in layers]
        products = total(tf.stack([_products(rows, dtype) for rows in layers]))
        layers = [_weighted(rows, factors) for rows, factors in zip(layers, tf.unstack(coefficients(products)))]
    return [rows[0] for rows in layers]


def wide(dtype: tf.DType) -> tf.DType:
    """The dtype of the arithmetic on values of `dtype`: float32, or float64 where they are."""
    return tf.float64 if dtype == tf.float64 else tf.float32


def _in_trees(rows: tf.Tensor, width: int) -> tf.Tensor:
    """[n, size] to [trees, width, size]; vectors of zeros complete the last tree, and change nothing."""
    workers, size = rows.shape
    missing = -workers % width
    with tf.device(rows.device):
        if missing:
            rows = tf.pad(rows, [[0, missing], [0, 0]])
        return tf.reshape(rows, [-1, width, size])


def _products(rows: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    with tf.device(rows.device):
        wide = tf.cast(rows, dtype)
        return tf.linalg.matmul(wide, wide, transpose_b=True)


def _weighted(rows: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """[trees, width, size] and [trees, width] to the weighted sums [trees, size]."""
    with tf.device(rows.device):
        factors = tf.cast(factors, rows.dtype)
        return tf.linalg.matmul(factors[:, tf.newaxis], rows)[:, 0]
