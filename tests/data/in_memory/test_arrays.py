import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.in_memory.arrays import Arrays


def arrays(size=23):
    return Arrays(np.arange(size, dtype=np.uint8).reshape(size, 1), np.arange(size, dtype=np.int32) % 5, 5, "test")


def context(replicas, workers=1, worker=0):
    return tf.distribute.InputContext(workers, worker, replicas)


def test_replicas_and_workers_share_each_global_batch_between_them():
    data = arrays()
    settings = {"batch_size": 8, "seed": 3, "first_step": 0, "last_step": 6}
    alone = [x.numpy().ravel() for x, _ in data.training_batches(context(1), **settings)]
    assert [len(batch) for batch in alone] == [8] * 6

    two = [x.numpy().ravel() for x, _ in data.training_batches(context(2), **settings)]
    np.testing.assert_array_equal(np.reshape(two, (6, 8)), alone)

    parts = [
        np.reshape([x.numpy().ravel() for x, _ in data.training_batches(context(4, 2, worker), **settings)], (6, 4))
        for worker in range(2)
    ]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), alone)


def test_a_later_start_gives_the_same_batches():
    data = arrays()
    whole = list(data.training_batches(context(1), batch_size=8, seed=3, first_step=0, last_step=6))
    rest = list(data.training_batches(context(1), batch_size=8, seed=3, first_step=4, last_step=6))
    for (x, y), (late_x, late_y) in zip(whole[4:], rest):
        np.testing.assert_array_equal(x, late_x)
        np.testing.assert_array_equal(y, late_y)


@pytest.mark.parametrize("batch_size", [1, 4, 8, 23, 64])
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_evaluation_counts_every_example_once(batch_size, replicas):
    data = arrays()
    batch_size *= replicas
    seen = []
    for x, _, mask in data.evaluation_batches(context(replicas), batch_size=batch_size):
        assert len(mask) == batch_size // replicas
        seen.extend(x.numpy().ravel()[mask.numpy() == 1])
    np.testing.assert_array_equal(np.sort(seen), np.arange(23))


@pytest.mark.parametrize(
    "features, labels, said",
    [
        (np.zeros((3, 1)), np.array([0, 1, 5]), "label 5 of example 2 is out of range; expected 0 to 4"),
        (np.zeros((3, 1)), np.array([0, -1, 1]), "label -1 of example 1 is out of range"),
        (np.zeros((3, 1)), np.array([0, 1]), "3 examples but 2 labels"),
        (np.zeros((0, 1)), np.array([], np.int32), "no examples"),
    ],
)
def test_bad_arrays_are_refused(features, labels, said):
    with pytest.raises(ValueError, match=said):
        Arrays(features, labels, 5, "test")
