"""How a variable is cut into blocks, and put together again."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.optimizers import matrices
from tfbigbatch.optimizers.blocks import BlockView, merged_shape


@pytest.mark.parametrize(
    "shape, merged",
    [
        ((), (1,)),
        ((1, 1), (1,)),
        ((64,), (64,)),
        ((8, 16), (128,)),
        ((1, 1, 64, 256), (64, 256)),
        ((3, 3, 64, 64), (9, 64, 64)),
        ((7, 7, 3, 64), (49, 3, 64)),
        ((768, 12, 64), (768, 12, 64)),
        ((7, 7, 7, 64, 64), (49, 7, 64, 64)),
        ((200, 200, 200, 200, 200), (40000, 200, 200, 200)),
    ],
)
def test_small_neighbouring_axes_are_merged(shape, merged):
    assert merged_shape(shape, 128) == merged


@pytest.mark.parametrize(
    "shape, count, sides",
    [
        ((128,), 1, (128,)),
        ((1000,), 8, (125,)),
        ((2048, 1000), 128, (128, 125)),
        ((3, 3, 512, 512), 16, (9, 128, 128)),
        ((130, 10), 2, (65, 10)),
        ((1001, 300), 24, (126, 100)),
    ],
)
def test_parts_of_an_axis_are_equal(shape, count, sides):
    view = BlockView.merged(shape, 128)
    assert (view.count, view.sides) == (count, sides)


@pytest.mark.parametrize("shape", [(), (7,), (9, 10), (2, 3, 5, 7), (11, 3, 2, 9, 5)])
def test_blocks_are_put_together_again(shape):
    value = np.random.RandomState(0).normal(size=shape)
    view = BlockView.merged(shape, 4)
    blocks = view.split(tf.constant(value))
    assert blocks.shape == (view.count, *view.sides)
    np.testing.assert_array_equal(view.join(blocks), value)
    # What is filled up is zero.
    np.testing.assert_allclose(np.sum(np.square(blocks)), np.sum(np.square(value)))


def test_each_block_is_a_part_of_the_variable():
    value = np.arange(48.0).reshape(6, 8)
    blocks = BlockView.merged((6, 8), 4).split(tf.constant(value)).numpy()
    np.testing.assert_array_equal(blocks, [value[i : i + 3, j : j + 4] for i in (0, 3) for j in (0, 4)])


def test_the_matrices_of_a_view_are_cut():
    [view] = matrices.views(["lstm/recurrent_kernel"], [(6, 24)], [("kernel", "gates")])
    value = np.random.RandomState(0).normal(size=(6, 24))
    cut = BlockView.of_matrices(view, 4)
    assert (cut.count, cut.sides) == (16, (3, 3))
    blocks = cut.split(tf.constant(value))
    np.testing.assert_array_equal(blocks[0], value[:3, :3])
    np.testing.assert_array_equal(blocks[4], value[:3, 6:9])
    np.testing.assert_array_equal(cut.join(blocks), value)
