"""The functions of `rule.of` for the tensors of Keras 3 on JAX and PyTorch: `keras.ops`, and a few more.

Numbers of Python take the dtype of the tensor beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

Tensor = Any

# Of whole numbers: JAX has 64 bits only where it is told so.
INTEGER = "int32"


globals().update({name: getattr(keras.ops, name) for name in dir(keras.ops) if not name.startswith("_")})


def clip_by_norm(tensor: Tensor, limit: float) -> Tensor:
    squares = keras.ops.sum(keras.ops.square(tensor))
    return tensor * (limit / keras.ops.maximum(keras.ops.sqrt(squares), limit))


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    return keras.ops.matmul(matrix_transpose(a) if transpose_a else a, matrix_transpose(b) if transpose_b else b)


def matrix_transpose(matrices: Tensor) -> Tensor:
    """The transpose of the last two axes."""
    return keras.ops.swapaxes(matrices, -2, -1)


def trace(matrices: Tensor) -> Tensor:
    """Of the last two axes."""
    return keras.ops.trace(matrices, axis1=-2, axis2=-1)


def add_diagonal(matrices: Tensor, number: float) -> Tensor:
    """The matrices with a number added to each entry of their diagonals."""
    one, diagonal = keras.ops.eye(matrices.shape[-1], dtype=matrices.dtype), keras.ops.diagonal(matrices, 0, -2, -1)
    return matrices * (1.0 - one) + (number + diagonal)[..., None] * one


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


def apart(function: Callable[..., Any], matrices: Tensor, *arguments: Any, jit_compile: bool = False) -> Any:
    """`function(matrices, *arguments)`: JAX compiles a step as a whole, and PyTorch computes as it goes."""
    del jit_compile
    return function(matrices, *arguments)
