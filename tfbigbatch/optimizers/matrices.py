"""What is a matrix: how a variable is read as one matrix, or as several, for optimizers that step whole matrices.

| variable | shape | matrices [rows, columns] | treatment |
|---|---|---|---|
| dense kernel | [in, out] | one [in, out] | matrix |
| convolution | [h, w, in, out], and 1-D, 3-D | one [h w in, out] | matrix |
| transposed convolution | [h, w, out, in], and 1-D, 3-D | one [in, h w out] | matrix |
| LSTM's or GRU's kernels | [in, gates x units] | one, as it is; or one [in, units] a gate | matrix, gates |
| attention's query, key, value | [in, heads, size] | one [in, heads x size]; or one [in, size] a head | matrix, heads |
| attention's output | [heads, size, out] | one [heads x size, out]; or one [size, out] a head | matrix, heads |
| grouped convolution | [h, w, in / g, out] | one [h w in / g, out / g] a group | groups:g, to be asked for |
| depthwise convolution | [h, w, in, m] | none; or one [h w, m] a channel | vector, depthwise |
| embedding | [vocabulary, size] | none; or one as it is | vector, matrix |
| output layer of a vocabulary | [in, out], out >= 8 in and >= 1000 | none; or one as it is | vector, matrix |
| other kernels | [a, b, ..., z] | one [a b ..., z]; or with n axes in its rows | matrix, rows:n |
| biases, gammas, betas, scales | any | none | vector |

The first treatment of a row is the default; a user's patterns choose another. Kinds are told by the variable's name and
its layer's, as Keras names them. A matrix with a side of 1 is a vector unless a pattern asks for it; biases and the
gains of normalisation layers are vectors whatever the patterns ask for, so that a pattern may name a whole layer.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.ops import Tensor, of

Shape = tuple[int, ...]
# Pairs (regular expression, treatment): the first pattern that is found in a variable's path applies.
Treatments = Sequence[tuple[str, str]]

# Of the variable's name:
_GAIN_OR_BIAS = r"bias|(^|_)(gamma|beta|scale|offset|alpha)(_\d+)?$"
_RECURRENT = "recurrent_kernel"
# Of the layer's name and the variable's, as in 'query/kernel':
_EMBEDDING = r"(?i)embed[^/]*$|embed[^/]*/(?!.*kernel)"
_DEPTHWISE = r"(?i)depthwise"
_TRANSPOSED = r"(?i)conv[^/]*transpose"
_HEADS_LAST = r"^(?!.*conv)(.*[/_])?(query|key|value|qkv|[qkv]_(proj|projection|dense))(_\d+)?/[^/]*$"
_HEADS_FIRST = r"(attention_output|(^|[/_])(o|out|output)_(proj|projection|dense))(_\d+)?/[^/]*$"
# A kernel with as many outputs, and as many times more than inputs, is taken for the output layer of a vocabulary: a
# transformer's inner layer and an LSTM's gates have 4 times as many, a first layer of few features seldom a thousand.
_OF_VOCABULARY, _SMALLEST_VOCABULARY = 8, 1000


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

    def to_matrices(self, tensor: Tensor) -> Tensor:
        """The variable's value, or its gradient, as [blocks, rows, columns]."""
        ops = of(tensor)
        if self.order != tuple(range(len(self.order))):
            tensor = ops.transpose(ops.reshape(tensor, self.parts), self.order)
        return ops.reshape(tensor, self.matrix_shape)

    def from_matrices(self, matrices: Tensor) -> Tensor:
        """The reverse of `to_matrices`."""
        ops = of(matrices)
        if self.order != tuple(range(len(self.order))):
            matrices = ops.reshape(matrices, [self.parts[axis] for axis in self.order])
            matrices = ops.transpose(matrices, [self.order.index(axis) for axis in range(len(self.order))])
        return ops.reshape(matrices, self.shape)


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
    return [_view_of(path, tuple(shape), treatments, gates.get(path, 0)) for path, shape in zip(paths, shapes)]


def may_be_matrix(path: str, shape: Shape) -> bool:
    """False for a bias, the gain of a normalisation layer, or a variable of fewer than two axes."""
    return len(shape) >= 2 and not re.search(_GAIN_OR_BIAS, path.split("/")[-1])


def treatment_for(path: str, treatments: Treatments) -> str | None:
    """The treatment that a user's patterns choose for a path; None where none matches."""
    return next((each for pattern, each in treatments if re.search(pattern, path)), None)


def warn_of_idle(treatments: Treatments, paths: Sequence[str], shapes: Sequence[Shape]) -> None:
    """Warns of each pattern that matches no variable, or only variables that are vectors in any case."""
    of_matrices = [path for path, shape in zip(paths, shapes) if may_be_matrix(path, tuple(shape))]
    for pattern, treatment in treatments:
        matched = paths if treatment == "vector" else of_matrices
        exclusions.warn_of_idle("matrices", [pattern], matched, effect="changes")


def _view_of(path: str, shape: Shape, treatments: Treatments, gates: int) -> MatrixView | None:
    if not may_be_matrix(path, shape):
        return None
    asked = treatment_for(path, treatments)
    treatment = asked or _default(path, shape, gates)
    view = None if treatment == "vector" else _view(path, shape, treatment, gates)
    return None if view and not asked and min(view.matrix_shape[1:]) == 1 else view


def _default(path: str, shape: Shape, gates: int) -> str:
    inputs, outputs = shape[-2:]
    of_vocabulary = len(shape) == 2 and not gates and outputs >= max(_OF_VOCABULARY * inputs, _SMALLEST_VOCABULARY)
    is_vector = of_vocabulary or re.search(_EMBEDDING, _end(path)) or re.search(_DEPTHWISE, _end(path))
    return "vector" if is_vector else "matrix"


def _end(path: str) -> str:
    """The layer's and the variable's name: what is before them is of the user's choice."""
    return "/".join(path.split("/")[-2:])


def _gates(paths: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    """The gates of recurrent kernels, and of the input kernels beside them, by path."""
    found = {}
    for path, shape in zip(paths, shapes):
        if path.split("/")[-1].startswith(_RECURRENT) and len(shape) >= 2 and shape[-1] % shape[-2] == 0:
            found[path] = found[path.replace(_RECURRENT, "kernel")] = shape[-1] // shape[-2]
    return found


def _view(path: str, shape: Shape, treatment: str, gates: int) -> MatrixView:
    rank, end = len(shape), _end(path)
    natural = tuple(range(rank))
    name, _, number = treatment.partition(":")
    if name == "matrix":
        if rank >= 3 and re.search(_TRANSPOSED, end):
            return MatrixView(shape, shape, (rank - 1, *range(rank - 1)), 0, 1)
        return MatrixView(shape, shape, natural, 0, 1 if rank == 3 and re.search(_HEADS_LAST, end) else rank - 1)
    if name == "rows":
        if int(number) >= rank:
            raise _does_not_fit(path, shape, treatment, f"a kernel of more than {number} axes")
        return MatrixView(shape, shape, natural, 0, int(number))
    if name == "gates":
        if gates < 2:
            raise _does_not_fit(path, shape, treatment, "the kernel or recurrent_kernel of an LSTM or GRU")
        return _by_groups(shape, gates)
    if name == "groups":
        if shape[-1] % int(number):
            raise _does_not_fit(path, shape, treatment, f"a kernel with a multiple of {number} outputs")
        return _by_groups(shape, int(number))
    if name == "heads":
        if rank != 3:
            raise _does_not_fit(path, shape, treatment, "a kernel [in, heads, size] or [heads, size, out]")
        return MatrixView(shape, shape, natural if re.search(_HEADS_FIRST, end) else (1, 0, 2), 1, 1)
    if rank < 3:
        raise _does_not_fit(path, shape, treatment, "a depthwise kernel [h, w, in, multiplier]")
    return MatrixView(shape, shape, (rank - 2, *range(rank - 2), rank - 1), 1, rank - 2)


def _by_groups(shape: Shape, groups: int) -> MatrixView:
    """One matrix for each of `groups` equal ranges of the last axis."""
    rank = len(shape)
    parts = (*shape[:-1], groups, shape[-1] // groups)
    return MatrixView(shape, parts, (rank - 1, *range(rank - 1), rank), 1, rank - 1)


def _does_not_fit(path: str, shape: Shape, treatment: str, expected: str) -> InputError:
    return InputError(
        f"matrices: the treatment {treatment!r} does not fit {path!r} of shape {shape}; expected {expected}. "
        "Narrow the pattern, or choose 'matrix', 'vector', 'groups:N' or 'rows:N', which are for any kernel."
    )
