"""The matrices of a model: how a variable is read as one matrix, or several, for optimizers that step whole matrices.

A kernel's last axis is its outputs, and so the columns; all others are its rows. The table of docs/muon.md has the
exceptions, the treatments that a user's patterns may choose, and what is a vector by default. Kinds are told by the
variable's name and its layer's, as Keras names them; what an EinsumDense multiplies its equation says, and
`einsum_treatments` reads it. A matrix with a side of 1 is a vector unless a pattern asks for it; biases and the gains
of normalisation layers are vectors whatever the patterns ask for, so that a pattern may name a whole layer.
"""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.rule import Tensor, of

Shape = tuple[int, ...]
# Pairs (regular expression, treatment): the first pattern that is found in a variable's path applies.
Treatments = Sequence[tuple[str, str]]

TREATMENTS = ("matrix", "vector", "gates", "heads")
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
    """A variable as matrices [rows, columns]: its axes cut in parts, and put in another order.

    Attributes:
      shape: of the variable.
      parts: a shape of as many elements, with an axis for the gates or groups.
      rows, columns: the axes of `parts` that a matrix has; each index of the others has a matrix of its own.
    """

    shape: Shape
    parts: Shape
    rows: Shape
    columns: Shape

    @property
    def matrix_shape(self) -> Shape:
        """(Number of matrices, rows, columns)."""
        matrices, rows, columns = (
            math.prod(self.parts[axis] for axis in axes) for axes in (self._others, self.rows, self.columns)
        )
        return matrices, rows, columns

    def to_matrices(self, tensor: Tensor) -> Tensor:
        """The variable's value, or its gradient, as [matrices, rows, columns]."""
        return rearranged(tensor, self.parts, (*self._others, *self.rows, *self.columns), self.matrix_shape)

    def from_matrices(self, matrices: Tensor) -> Tensor:
        """The reverse of `to_matrices`."""
        return restored(matrices, self.parts, (*self._others, *self.rows, *self.columns), self.shape)

    @property
    def _others(self) -> Shape:
        return tuple(axis for axis in range(len(self.parts)) if axis not in (*self.rows, *self.columns))


def rearranged(tensor: Tensor, parts: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Tensor:
    """A tensor in the shape `parts`, then with its axes in another order, then in the shape `shape`."""
    ops = of(tensor)
    moved = [axis for axis in order if parts[axis] != 1]
    if moved != sorted(moved):
        tensor = ops.transpose(ops.reshape(tensor, parts), order)
    return ops.reshape(tensor, shape)


def restored(tensor: Tensor, parts: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The reverse of `rearranged`, from `parts` in that order to a tensor of the shape `shape`."""
    return rearranged(tensor, [parts[axis] for axis in order], sorted(range(len(order)), key=order.__getitem__), shape)


def views(paths: Sequence[str], shapes: Sequence[Shape], treatments: Treatments = ()) -> list[MatrixView | None]:
    """The matrix view of each of a model's variables; None for those that are vectors.

    Warns of each pattern that matches no variable, or only variables that are vectors in any case.

    Args:
      paths: the variables' paths, such as 'lstm/lstm_cell/kernel'.
      shapes: their shapes.
      treatments: overrides of the defaults, by pattern.

    Raises:
      ValueError: a treatment does not fit a variable's shape.
    """
    of_matrices = [path for path, shape in zip(paths, shapes) if _may_be_matrix(path, shape)]
    for pattern, treatment in treatments:
        matched = paths if treatment == "vector" else of_matrices
        exclusions.warn_of_idle("treatments", [pattern], matched, effect="changes")
    return [
        None if view and not asked and min(view.matrix_shape[1:]) == 1 else view
        for _, asked, view in _readings(paths, shapes, treatments)
    ]


def treatment_for(path: str, treatments: Treatments) -> str | None:
    """The treatment that a user's patterns choose for a path; None where none matches."""
    return next((each for pattern, each in treatments if re.search(pattern, path)), None)


def warn_of_long(paths: Sequence[str], shapes: Sequence[Shape], treatments: Treatments = ()) -> None:
    """Warns once of the kernels of three axes and more that are read as a matrix with one side far above the other.

    Not of convolutions, nor where a treatment says 'matrix' or names the axes: their order is known.
    """
    long = [
        f"{path!r} of shape {view.shape} as " + "{:,} x [{:,}, {:,}]".format(*view.matrix_shape)
        for path, asked, view in _readings(paths, shapes, treatments)
        if view
        and max(view.matrix_shape[1:]) > _LONG * min(view.matrix_shape[1:])
        and _is_of_unknown_order(path, view.shape, asked)
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


def _is_of_unknown_order(path: str, shape: Shape, asked: str | None) -> bool:
    is_told = asked is not None and not re.match("heads|groups", asked)
    is_window = len(shape) > 3 and math.prod(shape[:-2]) <= _LARGEST_WINDOW
    # With one axis alone it is a vector in any order; with two it is a matrix.
    is_kernel = len(shape) > 2 and len([size for size in shape if size > 1]) > 1
    return is_kernel and not is_told and not is_window and "conv" not in _end(path).lower()


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


def _axes_of(treatment: str) -> tuple[Shape, Shape] | None:
    """The axes of the rows and of the columns in a treatment such as 'in:1 out:0,2'; None in another one."""
    found = _AXES.fullmatch(treatment)
    if found is None:
        return None
    rows, columns = (tuple(map(int, axes.split(","))) for axes in found.groups())
    return rows, columns


def _is_treatment(treatment: str) -> bool:
    if axes := _axes_of(treatment):
        return len({*axes[0], *axes[1]}) == len(axes[0]) + len(axes[1])
    return treatment in TREATMENTS or bool(re.fullmatch(r"groups:[1-9]\d*", treatment))


def check_treatments(label: str, name: str, value: Any) -> tuple[tuple[str, str], ...]:
    """A check for pairs (pattern, treatment), also by a dictionary."""
    pairs = value.items() if isinstance(value, Mapping) else () if value is None else value
    expected = "expected pairs (regular expression, treatment), as [('softmax', 'vector')], or a dictionary"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"{label}: {name}={value!r}; {expected}.")
    checked = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(f"{label}: {name} holds {pair!r}; {expected}.")
        pattern, treatment = pair
        exclusions.check_patterns(f"{label}: {name}", [pattern])
        if not _is_treatment(str(treatment)):
            raise InputError(
                f"{label}: {name}: the treatment {treatment!r} of {pattern!r} is unknown; expected "
                f"{', '.join(map(repr, TREATMENTS))}, 'groups:N' (of outputs) or 'in:AXES out:AXES' (axes of the rows "
                f"and of the columns, each once, as 'in:1 out:0,2'). {nearest(str(treatment), TREATMENTS)}"
            )
        checked.append((pattern, treatment))
    return tuple(checked)


def _readings(
    paths: Sequence[str], shapes: Sequence[Shape], treatments: Treatments
) -> Iterator[tuple[str, str | None, MatrixView | None]]:
    """The path of each variable, the treatment that is asked for, and its view: None for a vector."""
    # The gates of recurrent kernels, and of the input kernels beside them.
    gates: dict[str, int] = {}
    for path, shape in zip(paths, shapes):
        if path.split("/")[-1].startswith(_RECURRENT) and len(shape) >= 2 and shape[-1] % shape[-2] == 0:
            gates[path] = gates[path.replace(_RECURRENT, "kernel")] = shape[-1] // shape[-2]
    for path, shape in zip(paths, map(tuple, shapes)):
        asked, own_gates = treatment_for(path, treatments), gates.get(path, 0)
        is_vector = not _may_be_matrix(path, shape) or asked == "vector"
        if is_vector or (not asked and _is_vector_by_default(path, shape, own_gates)):
            yield path, asked, None
        else:
            yield path, asked, _view(path, shape, asked or "matrix", own_gates)


def _may_be_matrix(path: str, shape: Shape) -> bool:
    """False for a bias, the gain of a normalisation layer, or a variable of fewer than two axes."""
    return len(shape) >= 2 and not re.search(_GAIN_OR_BIAS, path.split("/")[-1])


def _is_vector_by_default(path: str, shape: Shape, gates: int) -> bool:
    inputs, outputs = shape[-2:]
    of_vocabulary = len(shape) == 2 and not gates and outputs >= max(_OF_VOCABULARY * inputs, _SMALLEST_VOCABULARY)
    return bool(of_vocabulary or re.search(_EMBEDDING, _end(path)) or re.search(_DEPTHWISE, _end(path)))


def _end(path: str) -> str:
    """The layer's and the variable's name: what is before them is of the user's choice."""
    return "/".join(path.split("/")[-2:])


def _view(path: str, shape: Shape, treatment: str, gates: int) -> MatrixView:
    rank, end = len(shape), _end(path)
    name, _, number = treatment.partition(":")
    fits, expected = True, ""
    parts = shape
    rows: Sequence[int] = range(rank - 1)
    columns: Sequence[int] = [rank - 1]
    if axes := _axes_of(treatment):
        rows, columns = axes
        fits, expected = max(*rows, *columns) < rank, f"axes from 0 to {rank - 1}"
    elif name in ("gates", "groups"):
        # A matrix for each of equal ranges of the last axis.
        ranges = int(number) if number else max(1, gates)
        parts, columns = (*shape[:-1], ranges, shape[-1] // ranges), [rank]
        fits, expected = shape[-1] % ranges == 0, f"a kernel with a multiple of {number} outputs"
        if name == "gates":
            fits, expected = ranges > 1, "the kernel or recurrent_kernel of an LSTM or GRU"
    elif name == "heads":
        rows = [1] if re.search(_HEADS_FIRST, end) else [0]
        fits, expected = rank == 3, "a kernel [in, heads, size] or [heads, size, out]"
    elif rank > 2 and re.search(_TRANSPOSED, end):
        rows, columns = [rank - 1], range(rank - 1)
    elif rank == 3 and re.search(_HEADS_LAST, end):
        rows, columns = [0], [1, 2]
    if not fits:
        raise InputError(
            f"treatments: the treatment {treatment!r} does not fit {path!r} of shape {shape}; expected {expected}. "
            "Narrow the pattern, or choose 'matrix', 'vector', 'groups:N' or 'in:AXES out:AXES', which are "
            "for any kernel."
        )
    return MatrixView(shape, parts, tuple(rows), tuple(columns))
