import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.instruments.probe.micro_batches import micro_batches_of, probe_sizes

X = np.arange(24.0, dtype="float32").reshape(12, 2)
Y = np.arange(12, dtype="int32")


@pytest.mark.parametrize(
    "probe",
    [
        (X, Y),
        [(X[i : i + 3], Y[i : i + 3]) for i in range(0, 12, 3)],
        tf.data.Dataset.from_tensor_slices((X, Y)).batch(3),
        ((X[i : i + 3], Y[i : i + 3]) for i in range(0, 12, 3)),
    ],
    ids=["arrays", "list", "dataset", "generator"],
)
def test_every_form_gives_the_same_micro_batches(probe):
    x, y = micro_batches_of(probe, 4)
    np.testing.assert_array_equal(x, X.reshape(4, 3, 2))
    np.testing.assert_array_equal(y, Y.reshape(4, 3))
    assert probe_sizes((x, y)) == (4, 3)


def test_nests_are_cut_leaf_by_leaf():
    inputs, labels, weights = micro_batches_of(({"ids": X, "mask": X[:, 0]}, Y, Y), 2)
    assert inputs["ids"].shape == (2, 6, 2) and inputs["mask"].shape == labels.shape == weights.shape == (2, 6)


@pytest.mark.parametrize(
    "probe, count, message",
    [
        ((X, Y), 5, "12 examples cannot be cut into 5 micro-batches"),
        ([(X, Y)], 8, r"the probe has 1 micro-batch\(es\)"),
        (tf.data.Dataset.from_tensor_slices((X, Y)).batch(5), 8, "micro-batches differ"),
        ([X, Y], 4, r"micro-batches differ: .* Arrays of all examples are a tuple, probe=\(x, y\)"),
        ((), 4, "the probe has no arrays with an axis of examples"),
        (3.0, 4, "probe=3.0 is not a sequence"),
        (tf.data.Dataset.from_tensor_slices((X, Y)).batch(3).repeat(), 8, "infinite tf.data.Dataset: take a part"),
    ],
)
def test_a_bad_probe_is_refused(probe, count, message):
    with pytest.raises(ValueError, match=message):
        micro_batches_of(probe, count)
