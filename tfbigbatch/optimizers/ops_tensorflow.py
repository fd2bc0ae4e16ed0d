"""The functions of `ops.of` for TensorFlow's tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Of whole numbers.
INTEGER = "int64"

absolute = tf.abs
cast = tf.cast
concat = tf.concat
diag_part = tf.linalg.diag_part
divide_no_nan = tf.math.divide_no_nan
expm1 = tf.math.expm1
logical_and = tf.logical_and
matmul = tf.matmul
matrix_transpose = tf.linalg.matrix_transpose
maximum = tf.maximum
minimum = tf.minimum
ones = tf.ones
ones_like = tf.ones_like
reduce_max = tf.reduce_max
reduce_mean = tf.reduce_mean
reduce_sum = tf.reduce_sum
reshape = tf.reshape
set_diag = tf.linalg.set_diag
sqrt = tf.sqrt
square = tf.square
trace = tf.linalg.trace
transpose = tf.transpose
where = tf.where
zeros_like = tf.zeros_like


def dtype_name(tensor: tf.Tensor) -> str:
    """Such as 'float32'."""
    return tensor.dtype.name


@functools.cache
def traced_by_shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, traced and optimised as a graph once for each shape of its arguments."""
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})
