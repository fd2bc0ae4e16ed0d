"""The functions of `ops.of` for the tensors of Keras 3 on JAX and PyTorch: names and arguments are those of TensorFlow.

Numbers of Python take the dtype of the tensor beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

Tensor = Any

# Of whole numbers: JAX has 64 bits only where it is told so.
INTEGER = "int32"

absolute = keras.ops.absolute
broadcast_to = keras.ops.broadcast_to
cast = keras.ops.cast
cond = keras.ops.cond
cos = keras.ops.cos
divide_no_nan = keras.ops.divide_no_nan
eigh = keras.ops.eigh
einsum = keras.ops.einsum
euclidean_norm = keras.ops.norm
expm1 = keras.ops.expm1
floormod = keras.ops.mod
is_finite = keras.ops.isfinite
logical_and = keras.ops.logical_and
logical_not = keras.ops.logical_not
logical_or = keras.ops.logical_or
maximum = keras.ops.maximum
minimum = keras.ops.minimum
ones_like = keras.ops.ones_like
pad = keras.ops.pad
reduce_any = keras.ops.any
reduce_max = keras.ops.max
reduce_mean = keras.ops.mean
reduce_sum = keras.ops.sum
reshape = keras.ops.reshape
shape = keras.ops.shape
sqrt = keras.ops.sqrt
square = keras.ops.square
transpose = keras.ops.transpose
where = keras.ops.where
while_loop = keras.ops.while_loop
zeros_like = keras.ops.zeros_like


def dtype_name(tensor: Tensor) -> str:
    """Such as 'float32'."""
    return str(keras.backend.standardize_dtype(tensor.dtype))


def ones(shape: Sequence[int], dtype: Any) -> Tensor:
    return keras.ops.ones(shape, dtype=keras.backend.standardize_dtype(dtype))


def zeros(shape: Sequence[int], dtype: Any) -> Tensor:
    return keras.ops.zeros(shape, dtype=keras.backend.standardize_dtype(dtype))


def constant(value: float, dtype: Any) -> Tensor:
    return keras.ops.convert_to_tensor(value, dtype=keras.backend.standardize_dtype(dtype))


def arange(start: int, stop: int, dtype: Any) -> Tensor:
    return keras.ops.arange(start, stop, dtype=keras.backend.standardize_dtype(dtype))


def identity(size: int, dtype: Any) -> Tensor:
    """The identity matrix [size, size]."""
    return keras.ops.eye(size, dtype=keras.backend.standardize_dtype(dtype))


def concat(tensors: Sequence[Tensor], axis: int) -> Tensor:
    return keras.ops.concatenate(tensors, axis=axis)


def clip_by_norm(tensor: Tensor, limit: float) -> Tensor:
    squares = keras.ops.sum(keras.ops.square(tensor))
    return tensor * (limit / keras.ops.maximum(keras.ops.sqrt(squares), limit))


def clip_by_value(tensor: Tensor, low: float, high: float) -> Tensor:
    return keras.ops.clip(tensor, low, high)


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    return keras.ops.matmul(matrix_transpose(a) if transpose_a else a, matrix_transpose(b) if transpose_b else b)


def matrix_transpose(matrices: Tensor) -> Tensor:
    """The transpose of the last two axes."""
    return keras.ops.swapaxes(matrices, -2, -1)


def trace(matrices: Tensor) -> Tensor:
    return keras.ops.trace(matrices, axis1=-2, axis2=-1)


def diag_part(matrices: Tensor) -> Tensor:
    return keras.ops.diagonal(matrices, axis1=-2, axis2=-1)


def set_diag(matrices: Tensor, diagonal: Tensor) -> Tensor:
    one = identity(matrices.shape[-1], matrices.dtype)
    return matrices * (1.0 - one) + diagonal[..., None] * one


def precise_matmul(left: Tensor, right: Tensor) -> Tensor:
    """Matrix products in full float32: on accelerators JAX has to be asked for it; PyTorch has its own setting."""
    if keras.config.backend() != "jax":
        return keras.ops.matmul(left, right)
    import jax

    with jax.default_matmul_precision("highest"):
        return keras.ops.matmul(left, right)


def has_fast_decompositions() -> bool:
    """True if eigendecompositions are fast, as on CPUs."""
    if keras.config.backend() == "jax":
        import jax

        return bool(jax.default_backend() == "cpu")
    import torch

    return not torch.cuda.is_available()


def is_part_of_one_program() -> bool:
    """True if a step needs no traced functions of its own: JAX compiles it as a whole, and PyTorch runs eagerly."""
    return True


def traced_by_shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is: JAX compiles a step as a whole, and PyTorch computes as it goes."""
    return function
