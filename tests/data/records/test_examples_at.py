import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records.order import examples_at


def order(first, last, *, seed=0, dataset_size):
    return examples_at(tf.range(first, last, dtype=tf.int64), seed=seed, dataset_size=dataset_size).numpy()


@pytest.mark.parametrize("dataset_size", [1, 2, 7, 64, 1437])
def test_each_epoch_visits_each_example_exactly_once(dataset_size):
    epochs = order(0, 3 * dataset_size, dataset_size=dataset_size).reshape(3, dataset_size)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(dataset_size))


def test_any_window_is_the_same_as_in_the_whole():
    whole = order(0, 5000, dataset_size=1437)
    for first, last in ((0, 32), (1400, 1500), (4999, 5000)):
        np.testing.assert_array_equal(order(first, last, dataset_size=1437), whole[first:last])


def test_epochs_and_seeds_are_shuffled_differently_and_well():
    size = 1437
    runs = [order(0, size, seed=seed, dataset_size=size) for seed in range(6)]
    runs += list(order(0, 6 * size, seed=99, dataset_size=size).reshape(6, size))
    runs.append(np.arange(size))
    correlations = np.corrcoef(runs) - np.eye(len(runs))
    # Independent permutations correlate by about 1 / sqrt(size) = 0.026.
    assert np.abs(correlations).max() < 5 / np.sqrt(size)


def test_far_positions_cost_nothing():
    far = 89 * 1_281_167
    assert order(far, far + 8, dataset_size=1_281_167).max() < 1_281_167
