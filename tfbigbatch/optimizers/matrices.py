"""What is a matrix: how a variable is read as one matrix, or as several, for optimizers that step whole matrices.

| variable | shape | matrices [rows, columns] | treatment |
|---|---|---|---|
| dense kernel | [in, out] | one [in, out] | matrix |
| convolution | [h, w, in, out], and 1-D, 3-D | one [h w in, out] | matrix |
| LSTM's or GRU's kernels | [in, gates x units] | one, as it is; or one [in, units] a gate | matrix, gates |
| attention's query, key, value | [in, heads, size] | one [in, heads x size]; or one [in, size] a head | matrix, heads |
| attention's output | [heads, size, out] | one [heads x size, out]; or one [size, out] a head | matrix, heads |
| grouped convolution | [h, w, in / g, out] | one [h w in / g, out / g] a group | groups:g, to be asked for |
| depthwise convolution | [h, w, in, m] | none; or one [h w, m] a channel | vector, depthwise |
| embedding | [vocabulary, size] | none; or one as it is | vector, matrix |
| output layer of a vocabulary | [in, out], out >= 8 in | none; or one as it is | vector, matrix |
| anything else: biases, gammas, scalars | | none | vector |

The first treatment of a row is the default. A user's patterns choose another. A side of 1 makes a vector.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

import tensorflow as tf

from tfbigbatch.errors import InputError

Shape = tuple[int, ...]
# Pairs (regular expression, treatment): the first pattern that is found in a variable's path applies.
Treatments = Sequence[tuple[str, str]]

_EMBEDDING = r"(?i)embedding"
_DEPTHWISE = r"(?i)depthwise"
_CONVOLUTION = r"(?i)conv"
_HEADS_LAST = r"(?i)(^|[/_])(query|key|value)([/_]|$)"
_HEADS_FIRST = r"(?i)attention_output"
_RECURRENT = "recurrent_kernel"
# A kernel with as many times more outputs than inputs is taken for the output layer of a vocabulary; a
# transformer's inner layer and an LSTM's gates have 4 times.
_OF_VOCABULARY = 8


@dataclasses.dataclass(frozen=True)
class MatrixView:
    """A variable as `blocks` matrices [rows, columns]: its axes cut in parts, and put in another order.

    Attributes:
      shape: of the variable.
      parts: a shape of as many elements, with an axis for the gates, heads or groups.
      order: the axes of `parts`: those of the blocks, then of the rows, then of the columns.
      block_axes, row_axes: how many axes of `order` are blocks and rows.
    """

    shape: Shape
    parts: Shape
    order: tuple[int, ...]
    block_axes: int
    row_axes: int

    @property
    def matrix_shape(self) -> Shape:
        """(blocks, rows, columns)."""
        sizes = [self.parts[axis] for axis in self.order]
        rows_end = self.block_axes + self.row_axes
        return (
            math.prod(sizes[: self.block_axes]),
            math.prod(sizes[self.block_axes : rows_end]),
            math.prod(sizes[rows_end:]),
        )

    def to_matrices(self, tensor: tf.Tensor) -> tf.Tensor:
        """The variable's value, or its gradient, as [blocks, rows, columns]."""
        if self.order != tuple(range(len(self.order))):
            tensor = tf.transpose(tf.reshape(tensor, self.parts), self.order)
        return tf.reshape(tensor, self.matrix_shape)

    def from_matrices(self, matrices: tf.Tensor) -> tf.Tensor:
        """The reverse of `to_matrices`."""
        if self.order != tuple(range(len(self.order))):
            matrices = tf.reshape(matrices, [self.parts[axis] for axis in self.order])
            matrices = tf.transpose(matrices, [self.order.index(axis) for axis in range(len(self.order))])
        return tf.reshape(matrices, self.shape)


def views(paths: Sequence[str], shapes: Sequence[Shape], treatments: Treatments = ()) -> list[MatrixView | None]:
    """How each of a model's variables is read as matrices; None for those that are vectors.

    Args:
      paths: the variables' paths, such as 'lstm/lstm_cell/kernel'.
      shapes: their shapes.
      treatments: overrides of the table's default, by pattern.

    Raises:
      ValueError: a treatment does not fit a variable's shape.
    """
    gates = _gates(paths, shapes)
    chosen = []
    for path, shape in zip(paths, shapes):
        treatment = next((each for pattern, each in treatments if re.search(pattern, path)), None)
        view = _view(path, tuple(shape), treatment or _default(path, tuple(shape)), gates.get(path, 0))
        if view is not None and min(view.matrix_shape[1:]) == 1:
            view = None
        chosen.append(view)
    return chosen


def _default(path: str, shape: Shape) -> str:
    is_vector = (
        len(shape) < 2
        or re.search(_EMBEDDING, path)
        or re.search(_DEPTHWISE, path)
        or (len(shape) == 2 and shape[1] >= _OF_VOCABULARY * shape[0])
    )
    return "vector" if is_vector else "matrix"


def _gates(paths: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    """The gates of recurrent kernels, and of the input kernels beside them, by path."""
    found = {}
    for path, shape in zip(paths, shapes):
        if path.split("/")[-1].startswith(_RECURRENT) and len(shape) == 2 and shape[1] % shape[0] == 0:
            found[path] = shape[1] // shape[0]
            found[path.replace(_RECURRENT, "kernel")] = shape[1] // shape[0]
    return found


def _view(path: str, shape: Shape, treatment: str, gates: int) -> MatrixView | None:
    if treatment == "vector":
        return None
    rank = len(shape)
    if rank < 2:
        raise _does_not_fit(path, shape, treatment, "of two axes or more")
    if treatment == "matrix":
        row_axes = 1 if rank == 3 and re.search(_HEADS_LAST, path) and not re.search(_CONVOLUTION, path) else rank - 1
        return MatrixView(shape, shape, tuple(range(rank)), 0, row_axes)
    if treatment == "gates":
        if gates < 2 or shape[-1] % gates:
            raise _does_not_fit(path, shape, treatment, "a kernel or recurrent_kernel of an LSTM or GRU")
        return MatrixView(shape, (shape[0], gates, shape[1] // gates), (1, 0, 2), 1, 1)
    if treatment == "heads":
        if rank != 3:
            raise _does_not_fit(path, shape, treatment, "a kernel [in, heads, size] or [heads, size, out]")
        order = (0, 1, 2) if re.search(_HEADS_FIRST, path) else (1, 0, 2)
        return MatrixView(shape, shape, order, 1, 1)
    if treatment == "depthwise":
        if rank < 3:
            raise _does_not_fit(path, shape, treatment, "a depthwise kernel [h, w, in, multiplier]")
        return MatrixView(shape, shape, (rank - 2, *range(rank - 2), rank - 1), 1, rank - 2)
    groups = int(treatment.split(":")[1])
    if shape[-1] % groups:
        raise _does_not_fit(path, shape, treatment, f"a kernel with a multiple of {groups} outputs")
    parts = (*shape[:-1], groups, shape[-1] // groups)
    return MatrixView(shape, parts, (rank - 1, *range(rank - 1), rank), 1, rank - 1)


def _does_not_fit(path: str, shape: Shape, treatment: str, expected: str) -> InputError:
    return InputError(
        f"matrices: the treatment {treatment!r} does not fit {path!r} of shape {shape}; expected {expected}. "
        "Narrow the pattern, or choose 'matrix' or 'vector'."
    )
