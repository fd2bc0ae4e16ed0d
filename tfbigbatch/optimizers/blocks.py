"""A variable as blocks: what Shampoo preconditions by itself, each axis with a matrix of its own.

A variable is read as a tensor of a few axes, and each axis is cut into parts of at most `block_size`, so that the
matrices stay small (Anil et al. 2020, arXiv:2002.09018, section 4). All blocks of a variable have the same shape.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tfbigbatch.optimizers.matrices import MatrixView
from tfbigbatch.optimizers.rule import Tensor, of

Shape = tuple[int, ...]
# A variable with more axes after merging has its first ones merged all the same.
MOST_AXES = 4


def merged_shape(shape: Shape, most: int) -> Shape:
    """The shape with neighbouring axes merged, from the first on, as long as their product is at most `most`.

    A convolution's kernel [3, 3, 64, 64] is [9, 64, 64] with 128 at most: the public implementation's reading. Axes
    of size 1 disappear.
    """
    merged = [1]
    for size in shape:
        if merged[-1] * size <= most:
            merged[-1] *= size
        else:
            merged.append(size)
    axes = [size for size in merged if size > 1] or [1]
    first = len(axes) - MOST_AXES + 1
    return tuple(axes) if first <= 1 else (math.prod(axes[:first]), *axes[first:])


@dataclasses.dataclass(frozen=True)
class BlockView:
    """A variable as blocks [count, *sides].

    An axis of n is cut into ceil(n / block_size) parts of equal size; the last is filled with zeros where that does not
    divide n. (The public implementation's parts are of `block_size`, but for a smaller last one: 1,000 is 7 x 128 + 104
    there, 8 x 125 here, which is one stack of equal matrices.)

    Attributes:
      shape: of the variable.
      tensors: how many tensors the variable is read as: 1, or the blocks of `matrices`.
      axes: the shape of each tensor.
      parts: into how many parts each axis is cut.
      matrices: what reads the variable as `tensors` matrices of shape `axes`; None: the variable's own order.
    """

    shape: Shape
    tensors: int
    axes: Shape
    parts: Shape
    matrices: MatrixView | None = None

    @classmethod
    def merged(cls, shape: Shape, block_size: int) -> BlockView:
        """Neighbouring axes merged to at most `block_size`; see `merged_shape`."""
        axes = merged_shape(shape, block_size)
        return cls(shape, 1, axes, _parts(axes, block_size))

    @classmethod
    def of_matrices(cls, view: MatrixView, block_size: int) -> BlockView:
        """The matrices of a view, each cut into blocks."""
        tensors, *axes = view.matrix_shape
        return cls(view.shape, tensors, tuple(axes), _parts(axes, block_size), view)

    @property
    def sides(self) -> Shape:
        """The shape of one block."""
        return tuple(-(-size // parts) for size, parts in zip(self.axes, self.parts))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return self.tensors * math.prod(self.parts)

    def split(self, tensor: Tensor) -> Tensor:
        """The variable's value, or its gradient, as [count, *sides]."""
        ops = of(tensor)
        tensor = self.matrices.to_matrices(tensor) if self.matrices else tensor
        tensor = ops.reshape(tensor, (self.tensors, *self.axes))
        missing = [parts * side - size for size, parts, side in zip(self.axes, self.parts, self.sides)]
        if any(missing):
            tensor = ops.pad(tensor, [(0, 0), *((0, each) for each in missing)])
        if self.count > self.tensors:
            tensor = ops.transpose(ops.reshape(tensor, self._cut_shape), self._parts_first)
        return ops.reshape(tensor, (self.count, *self.sides))

    def join(self, blocks: Tensor) -> Tensor:
        """The reverse of `split`."""
        ops, tensor = of(blocks), blocks
        if self.count > self.tensors:
            order = self._parts_first
            cut = [self._cut_shape[axis] for axis in order]
            tensor = ops.transpose(ops.reshape(tensor, cut), [order.index(axis) for axis in range(len(order))])
        filled = [parts * side for parts, side in zip(self.parts, self.sides)]
        tensor = ops.reshape(tensor, (self.tensors, *filled))
        if tuple(filled) != self.axes:
            tensor = tensor[(slice(None), *(slice(size) for size in self.axes))]
        return self.matrices.from_matrices(tensor) if self.matrices else ops.reshape(tensor, self.shape)

    @property
    def _cut_shape(self) -> Shape:
        """[tensors, parts, side, parts, side, ...]."""
        return (self.tensors, *(size for pair in zip(self.parts, self.sides) for size in pair))

    @property
    def _parts_first(self) -> list[int]:
        """The axes of `_cut_shape` with those of the parts before those of the sides."""
        rank = len(self.axes)
        return [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)]


def _parts(axes: Sequence[int], block_size: int) -> Shape:
    return tuple(-(-size // block_size) for size in axes)
