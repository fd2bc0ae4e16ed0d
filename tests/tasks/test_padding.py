"""Metrics of any kind see an evaluation's real examples alone; where that cannot be, a wrong one is refused."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfbigbatch import experiment, tasks, train
from tfbigbatch.errors import InputError
from tfbigbatch.runs.load import load_run
from tfbigbatch.tasks import own_checks

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(90, 4)).astype("float32")
Y = np.eye(3, dtype="float32")[DRAW.integers(0, 3, 90)]
HELD_OUT = 50
LABEL, OUTPUT = tf.TensorSpec([3]), tf.zeros([1, 3])


class Rows(tf_keras.metrics.Metric):
    """Examples, which takes weights and ignores them; NaN for a batch of none."""

    def __init__(self, name="rows", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight("total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        count = tf.cast(tf.shape(y_true)[0], tf.float32)
        self.total.assign_add(count * tf.reduce_mean(tf.ones_like(y_true)))

    def result(self):
        return self.total

    def get_config(self):
        return {"name": self.name}


def f1(average, name):
    return tf_keras.metrics.F1Score(average, name=name)


@pytest.mark.parametrize("replicas", [0, 4])
def test_a_metric_that_is_wrong_under_a_mask_is_that_of_the_examples(tmp_path, replicas):
    held_out = X[:HELD_OUT], Y[:HELD_OUT]
    tasks.define(
        "padded",
        network=lambda: tf_keras.Sequential([tf_keras.layers.Dense(3, "softmax")]),
        data={"train": (X, Y), "validation": held_out},
        loss="categorical_crossentropy",
        metrics=["accuracy", Rows(), f1("micro", "f1_micro"), f1("macro", "f1_macro")],
    )
    config = experiment.new("padded")
    config.batch_size, config.duration, config.simulated_replicas = 40, "2 steps", replicas
    # Of four replicas two have no example at all.
    config.evaluation_batch_size, config.optimizer = 100, {"name": "lamb"}
    found = train.run(config, model_dir=str(tmp_path))["metrics"]
    assert found["rows"] == HELD_OUT
    outputs = load_run(tmp_path).network(tf.constant(held_out[0]), training=False)
    for average in ("micro", "macro"):
        expected = f1(average, "expected")
        expected.update_state(held_out[1], outputs)
        assert found[f"f1_{average}"] == pytest.approx(float(expected.result()), abs=1e-6)


@pytest.mark.parametrize("metric", [Rows(), f1("micro", "micro"), f1("macro", "macro")])
def test_where_a_batch_keeps_its_shape_it_is_refused_by_name(metric):
    own_checks.check_masked([metric], LABEL, OUTPUT, "mine", is_static=False, weighted=False)
    right = ["accuracy", tf_keras.metrics.AUC(), tf_keras.metrics.CategoricalAccuracy()]
    own_checks.check_masked(right, LABEL, OUTPUT, "mine", is_static=True, weighted=True)
    with pytest.raises(InputError, match=f"task mine: metric '{metric.name}' is wrong under a mask"):
        own_checks.check_masked([*right, metric], LABEL, OUTPUT, "mine", is_static=True, weighted=False)


def test_a_metric_of_several_numbers_or_one_that_takes_no_weights_is_refused():
    with pytest.raises(InputError, match=r"metric 'each' is \[3\] numbers; expected one"):
        own_checks.check_masked([f1(None, "each")], LABEL, OUTPUT, "mine", is_static=False, weighted=False)
    with pytest.raises(InputError, match="metric 'macro' multiplies the weights"):
        own_checks.check_masked([f1("macro", "macro")], LABEL, OUTPUT, "mine", is_static=False, weighted=True)
