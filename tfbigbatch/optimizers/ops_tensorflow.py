"""The functions of `rule.of` for TensorFlow's tensors: its own, by the names of `keras.ops`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from tfbigbatch.optimizers.tensorflow import compiled_by_xla

# Of whole numbers.
INTEGER = "int64"

any = tf.reduce_any
arange = tf.range
clip = tf.clip_by_value
concatenate = tf.concat
divide_no_nan = tf.math.divide_no_nan
eigh = tf.linalg.eigh
expm1 = tf.math.expm1
isfinite = tf.math.is_finite
matrix_transpose = tf.linalg.matrix_transpose
max = tf.reduce_max
mean = tf.reduce_mean
mod = tf.math.floormod
sum = tf.reduce_sum
trace = tf.linalg.trace


_SAME = (
    "abs cast clip_by_norm cond cos einsum logical_and logical_not logical_or matmul maximum minimum norm ones_like "
    "pad reshape sqrt square transpose where zeros_like"
)
globals().update({name: getattr(tf, name) for name in _SAME.split()})


def eye(size: int, dtype: tf.DType) -> tf.Tensor:
    """The identity matrix; traced in a tenth of the time of `tf.eye`."""
    return tf.one_hot(tf.range(size), size, dtype=dtype)


def add_diagonal(matrices: tf.Tensor, number: float) -> tf.Tensor:
    """The matrices with a number added to each entry of their diagonals."""
    return tf.linalg.set_diag(matrices, number + tf.linalg.diag_part(matrices))


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], state: Sequence[Any]) -> Sequence[Any]:
    return tf.while_loop(condition, body, state, parallel_iterations=1)


def precise_matmul(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Matrix products [k, a, b] x [k, b, c] in full float32.

    XLA would round the factors to bfloat16 on TPUs and to 10 bits on GPUs.
    """
    if not compiled_by_xla():
        return tf.matmul(left, right)
    axes = xla.DotDimensionNumbers(
        lhs_batch_dimensions=[0],
        rhs_batch_dimensions=[0],
        lhs_contracting_dimensions=[2],
        rhs_contracting_dimensions=[1],
    )
    precision = xla.PrecisionConfig(operand_precision=2 * [xla.PrecisionConfig.HIGHEST])
    return xla.dot_general(left, right, axes, precision_config=precision)


def has_fast_decompositions() -> bool:
    """True if eigendecompositions are fast, as on CPUs where XLA does not compile."""
    return not compiled_by_xla() and not tf.config.list_logical_devices("GPU")


def apart(function: Callable[..., Any], matrices: tf.Tensor, *arguments: Any, jit_compile: bool = False) -> Any:
    """`function(matrices, *arguments)` of matrices [k, a, b], as a function that is traced once for all k.

    A model has many stacks of matrices of few shapes. `jit_compile` compiles it by XLA.
    """
    in_xla, spec = compiled_by_xla(), tf.TensorSpec([None, *matrices.shape[1:]], matrices.dtype)
    found = _traced(function, spec, arguments, jit_compile and not in_xla, in_xla)(matrices)
    for each in tf.nest.flatten(found):
        each.set_shape(matrices.shape[:1] + each.shape[1:])
    return found


@functools.cache
def _traced(function: Any, spec: tf.TensorSpec, arguments: tuple[Any, ...], jit_compile: bool, in_xla: bool) -> Any:
    """One for XLA's programs, one for others: `function` may ask which it is in."""
    del in_xla
    return tf.function(
        lambda matrices: function(matrices, *arguments),
        input_signature=[spec],
        jit_compile=jit_compile,
        autograph=False,
        experimental_attributes={"_noinline": True},
    )


def __getattr__(name: str) -> Any:
    """Every other name is the same in TensorFlow; it is asked for once."""
    found = globals()[name] = getattr(tf, name, None) or getattr(tf.math, name)
    return found
