"""The matrices of a model: how a variable is read as one matrix, or several, for optimizers that step whole matrices.

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
| an einsum's [heads, in, size] | [n, d, h] | one [d, n h]; or one [d, h] a head | in:1 out:0,2; in:1 out:2 |
| biases, gammas, betas, scales | any | none | vector |

The first treatment of a row is the default; a user's patterns choose another. Kinds are told by the variable's name and
its layer's, as Keras names them; what an EinsumDense multiplies its equation says, and `einsum_treatments` reads it. A
matrix with a side of 1 is a vector unless a pattern asks for it; biases and the
gains of normalisation layers are vectors whatever the patterns ask for, so that a pattern may name a whole layer.
"""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.rule import Tensor, of

Shape = tuple[int, ...]
# Pairs (regular expression, treatment): the first pattern that is found in a variable's path applies.
Treatments = Sequence[tuple[str, str]]

TREATMENTS = ("matrix", "vector", "gates", "heads", "depthwise")
# The axes of the rows and of the columns; all others are matrices of their own.
_AXES = re.compile(r"in:(\d+(?:,\d+)*) out:(\d+(?:,\d+)*)")

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
# A matrix with a side that many times the other is likely a kernel whose axes are in another order.
_LONG = 32
# A kernel of four axes and more with at most as many positions, 11 x 11, is taken for a convolution's.
_LARGEST_WINDOW = 121


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
    """The matrix view of each of a model's variables; None for those that are vectors.

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
        exclusions.warn_of_idle("treatments", [pattern], matched, effect="changes")


def warn_of_long(paths: Sequence[str], shapes: Sequence[Shape], treatments: Treatments = ()) -> None:
    """Warns once of the kernels of three axes and more that are read as a matrix with one side far above the other.

    Not of convolutions, nor where a treatment says 'matrix' or names the axes: their order is known.
    """
    gates = _gates(paths, shapes)
    long = [
        f"{path!r} of shape {tuple(shape)} as {view.matrix_shape[0]:,} x [{view.matrix_shape[1]:,}, "
        f"{view.matrix_shape[2]:,}]"
        for path, shape in zip(paths, shapes)
        if (view := _guessed(path, tuple(shape), treatments, gates.get(path, 0)))
        and max(view.matrix_shape[1:]) > _LONG * min(view.matrix_shape[1:])
    ]
    if long:
        more = f" and {len(long) - 1} more" if len(long) > 1 else ""
        warnings.warn(
            f"treatments: reads {long[0]}{more}: one side is over {_LONG} times the other, which is likely the wrong "
            "order of axes. Name those of the inputs and of the outputs, as treatments=[('query/kernel', "
            "'in:1 out:0,2')] for [heads, in, size] or 'in:1 out:2' for [experts, in, out]; for layers of EinsumDense "
            "tfbigbatch.optimizers.einsum_treatments(model) gives them all. If it is right, say 'matrix'.",
            stacklevel=2,
        )


def _guessed(path: str, shape: Shape, treatments: Treatments, gates: int) -> MatrixView | None:
    """The view of a kernel of several axes whose order nothing tells; None for any other variable."""
    asked = treatment_for(path, treatments)
    treatment = asked or _default(path, shape, gates) if may_be_matrix(path, shape) else "vector"
    is_told = asked in ("matrix", "depthwise", "gates") or (asked is not None and treatment_axes(asked))
    is_window = len(shape) > 3 and math.prod(shape[:-2]) <= _LARGEST_WINDOW
    if treatment == "vector" or is_told or is_window or re.search(r"(?i)conv", _end(path)):
        return None
    # With one axis alone it is a vector in any order; with two it is a matrix.
    axes = [size for size in shape if size > 1]
    return _view(path, shape, treatment, gates) if len(shape) > 2 and len(axes) > 1 else None


def einsum_treatments(model: Any) -> list[tuple[str, str]]:
    """The treatments of a model's EinsumDense kernels, by their equations: for `treatments` of Muon and Shampoo.

    The rows are the axes that the layer's input has and its output has not, the columns those of the output alone; an
    axis of both, such as the experts of 'ebd,edf->ebf', makes a matrix for each index.

        Muon(0.02, treatments=tfbigbatch.optimizers.einsum_treatments(model))

    Args:
      model: of Keras 2 or Keras 3, with its variables made.

    Returns:
      Pairs (a pattern of one variable's path, treatment such as 'in:1 out:0,2'), in the layers' order.
    """
    found = []
    for layer in model._flatten_layers():
        if "EinsumDense" not in [cls.__name__ for cls in type(layer).__mro__]:
            continue
        [(inputs, kernel, outputs)] = re.findall(r"(.*),(.*)->(.*)", layer.equation.replace(" ", ""))
        rows = [str(axis) for axis, letter in enumerate(kernel) if letter not in outputs]
        columns = [str(axis) for axis, letter in enumerate(kernel) if letter not in inputs]
        for variable in layer.trainable_variables if rows and columns else ():
            path = (getattr(variable, "path", None) or variable.name).split(":")[0]
            if path.split("/")[-1] == "kernel":
                found.append((f"^{re.escape(path)}$", f"in:{','.join(rows)} out:{','.join(columns)}"))
    return found


def treatment_axes(treatment: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The axes of the rows and of the columns in a treatment such as 'in:1 out:0,2'; None in another one."""
    found = _AXES.fullmatch(treatment)
    if found is None:
        return None
    rows, columns = (tuple(map(int, axes.split(","))) for axes in found.groups())
    return rows, columns


def _is_treatment(treatment: Any) -> bool:
    if treatment in TREATMENTS or re.fullmatch(r"(groups|rows):[1-9]\d*", str(treatment)):
        return True
    axes = treatment_axes(str(treatment))
    return axes is not None and len({*axes[0], *axes[1]}) == len(axes[0]) + len(axes[1])


def check_treatments(label: str, name: str, value: Any) -> tuple[tuple[str, str], ...]:
    """A check for pairs (pattern, treatment), also by a dictionary."""
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    expected = "expected pairs (regular expression, treatment), as [('softmax', 'vector')], or a dictionary"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"{label}: {name}={value!r}; {expected}.")
    checked = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(f"{label}: {name} holds {pair!r}; {expected}.")
        pattern, treatment = pair
        exclusions.check_patterns(f"{label}: {name}", [pattern])
        if not _is_treatment(treatment):
            raise InputError(
                f"{label}: {name}: the treatment {treatment!r} of {pattern!r} is unknown; expected "
                f"{', '.join(map(repr, TREATMENTS))}, 'groups:N' (of outputs), 'rows:N' (axes in the rows) or "
                "'in:AXES out:AXES' (axes of the rows and of the columns, each once, as 'in:1 out:0,2'). "
                f"{nearest(str(treatment), TREATMENTS)}"
            )
        checked.append((pattern, treatment))
    return tuple(checked)


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
    if axes := treatment_axes(treatment):
        rows, columns = axes
        if max(*rows, *columns) >= rank:
            raise _does_not_fit(path, shape, treatment, f"axes from 0 to {rank - 1}")
        others = tuple(axis for axis in natural if axis not in (*rows, *columns))
        return MatrixView(shape, shape, (*others, *rows, *columns), len(others), len(rows))
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
        f"treatments: the treatment {treatment!r} does not fit {path!r} of shape {shape}; expected {expected}. "
        "Narrow the pattern, or choose 'matrix', 'vector', 'groups:N', 'rows:N' or 'in:AXES out:AXES', which are for "
        "any kernel."
    )
