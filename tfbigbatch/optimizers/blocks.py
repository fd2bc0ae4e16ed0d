"""A variable as blocks: what Shampoo preconditions by itself, each axis with a matrix of its own.

A variable is read as a tensor of a few axes, and each axis is cut into parts of at most `block_size`, so that the
matrices stay small (Anil et al. 2020, arXiv:2002.09018, section 4). All blocks of a variable have the same shape.
"""

from __future__ import annotations

import dataclasses
import math

from tfbigbatch.optimizers.matrices import MatrixView, Shape, rearranged, restored
from tfbigbatch.optimizers.rule import Tensor, of

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
      axes: the shape of the tensor that it is read as, or of each of the matrices.
      block_size: the longest side of a block.
      matrices: what reads the variable as matrices; None: the variable's own order.
    """

    shape: Shape
    axes: Shape
    block_size: int
    matrices: MatrixView | None = None

    @property
    def sides(self) -> Shape:
        """The shape of one block."""
        return tuple(-(-size // parts) for size, parts in zip(self.axes, self._parts))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return self._tensors * math.prod(self._parts)

    def split(self, tensor: Tensor) -> Tensor:
        """The variable's value, or its gradient, as [count, *sides]."""
        ops = of(tensor)
        tensor = self.matrices.to_matrices(tensor) if self.matrices else ops.reshape(tensor, (1, *self.axes))
        missing = [filled - size for size, filled in zip(self.axes, self._filled)]
        if any(missing):
            tensor = ops.pad(tensor, [(0, 0), *((0, each) for each in missing)])
        return rearranged(tensor, *self._cut, (self.count, *self.sides))

    def join(self, blocks: Tensor) -> Tensor:
        """The reverse of `split`."""
        tensor = restored(blocks, *self._cut, (self._tensors, *self._filled))
        if self._filled != self.axes:
            tensor = tensor[(slice(None), *(slice(size) for size in self.axes))]
        return self.matrices.from_matrices(tensor) if self.matrices else of(tensor).reshape(tensor, self.shape)

    @property
    def _tensors(self) -> int:
        return self.matrices.matrix_shape[0] if self.matrices else 1

    @property
    def _parts(self) -> Shape:
        """Into how many parts each axis is cut."""
        return tuple(-(-size // self.block_size) for size in self.axes)

    @property
    def _filled(self) -> Shape:
        """The axes with the zeros that fill the last parts."""
        return tuple(parts * side for parts, side in zip(self._parts, self.sides))

    @property
    def _cut(self) -> tuple[Shape, list[int]]:
        """The shape [tensors, parts, side, parts, side, ...], and its axes with those of the parts before the sides."""
        shape = (self._tensors, *(size for pair in zip(self._parts, self.sides) for size in pair))
        return shape, [0, *range(1, len(shape), 2), *range(2, len(shape), 2)]
