import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.in_memory.arrays import Arrays


def context(replicas, workers=1, worker=0):
    return tf.distribute.InputContext(workers, worker, replicas)


@pytest.mark.parametrize(
    "features, labels, said",
    [
        (np.zeros((3, 1)), np.array([0, 1, 5]), "label 5 of example 2 is out of range; expected 0 to 4"),
        (np.zeros((3, 1)), np.array([0, -2, 1]), "label -2 of example 1 is out of range"),
        (np.zeros((3, 1)), {"start": np.array([0, 1, 1]), "end": np.array([0, 1, 7])}, "label 7 of example 2"),
        (np.zeros((3, 1)), np.array([0, 1]), "arrays of different lengths: 3 features, 2 labels"),
        (np.zeros((0, 1)), np.array([], np.int32), "no examples"),
    ],
)
def test_bad_arrays_are_refused(features, labels, said):
    with pytest.raises(ValueError, match=said):
        Arrays(features, labels, 5, "test")


@pytest.mark.parametrize("labels, classes", [(np.full(23, -1, np.int32), 5), (np.full(23, np.nan, np.float32), None)])
def test_examples_without_labels_are_evaluated_and_not_trained_on(labels, classes):
    data = Arrays(np.zeros([23, 1]), labels, classes, "test")
    assert data.unlabelled == 23
    assert len(list(data.evaluation_batches(context(1), batch_size=23))) == 1
    with pytest.raises(ValueError, match="test: 23 of 23 examples have no label"):
        data.training_batches(context(1), batch_size=8, seed=0, first_step=0, last_step=1)
