"""Labels and metrics that do not fit are told before the first step; metrics see the real examples alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.tasks.test_ready_made import made
from tfbigbatch import tasks, train
from tfbigbatch.config import new_config
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.load import load_run
from tfbigbatch.tasks import own_parts

FEATURES = np.zeros([90, 2], np.float32)
NUMBERS = np.arange(90) % 3


def network(outputs=3, activation=None):
    return lambda: keras.Sequential([keras.layers.Dense(outputs, activation)])


def loss_of(labels, *, layers=None, **options):
    """Makes the loss, which checks the labels."""
    data = labels if isinstance(labels, dict) else {"train": (FEATURES, labels), "validation": (FEATURES, labels)}
    task = made(data=data, network=layers or network(), **{"loss": None, **options})
    task.network()
    return task.loss()


BINARY = {"loss": "binary_crossentropy", "metrics": ["binary_accuracy"]}


@pytest.mark.parametrize(
    "labels, options, message",
    [
        (NUMBERS + 1, {}, "example 2 has the label 3; expected class numbers from 0 to 2, .* 30 of 90 do not fit"),
        (NUMBERS - 1, {}, "example 0 has the label -1"),
        (NUMBERS, {"layers": network(2)}, "example 2 has the label 2; expected .* 0 to 1, since the network has 2"),
        (NUMBERS + 0.5, {}, "example 0 has the label 0.5"),
        (np.array(["a", "b", "c"])[NUMBERS], {}, "labels are texts; expected numbers. .* np.unique"),
        (NUMBERS % 2, {"layers": network(1, "sigmoid")}, "ends in sigmoid, .* 'binary_crossentropy'"),
        (NUMBERS + 1, {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}, "the label 3"),
        (NUMBERS + 1, {"loss": keras.losses.SparseCategoricalCrossentropy(), "metrics": ["accuracy"]}, "the label 3"),
        (NUMBERS, {"layers": network(1, "sigmoid"), **BINARY}, "example 2 has the label 2; expected 0 to 1"),
    ],
)
def test_labels_that_do_not_fit_are_told_by_the_first(labels, options, message):
    with pytest.raises(InputError, match=f"mine, train: .*{message}|{message}") as caught:
        loss_of(labels, **options)
    assert len(str(caught.value).splitlines()) == 1


def test_labels_that_fit_are_taken():
    for labels in (NUMBERS, NUMBERS.astype(np.uint8), NUMBERS.astype(np.float32), NUMBERS[:, np.newaxis]):
        loss_of(labels)
    loss_of(NUMBERS % 2, layers=network(1, "sigmoid"), **BINARY)
    of_some = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    loss_of(np.where(NUMBERS == 2, -1, NUMBERS), loss=of_some, metrics=["accuracy"])


def test_the_first_examples_of_a_pipeline_and_the_held_out_ones_are_checked():
    def pipeline(labels):
        return tf.data.Dataset.from_tensor_slices((FEATURES, labels))

    with pytest.raises(InputError, match="mine, validation: example 5 has the label 3"):
        loss_of({"train": pipeline(NUMBERS), "validation": pipeline(NUMBERS + (np.arange(90) == 5))})
    unknown = np.where(np.arange(90) == 1, np.nan, 0.0).astype(np.float32)
    with pytest.raises(InputError, match="example 1 has the label nan; expected finite numbers. 1 of 32 do not fit"):
        loss_of({name: pipeline(unknown) for name in ("train", "validation")}, loss="mse", layers=network(1))


DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(90, 4)).astype("float32")
Y = np.eye(3, dtype="float32")[DRAW.integers(0, 3, 90)]
HELD_OUT = 50
LABEL, OUTPUT = tf.TensorSpec([3]), tf.zeros([1, 3])


class Rows(keras.metrics.Metric):
    """Examples, which takes weights and ignores them; NaN for a batch of none."""

    def __init__(self, name="rows", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight(shape=(), name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        count = tf.cast(tf.shape(y_true)[0], tf.float32)
        self.total.assign_add(count * tf.reduce_mean(tf.ones_like(y_true)))

    def result(self):
        return self.total

    def get_config(self):
        return {"name": self.name}


def f1(average, name):
    return keras.metrics.F1Score(average, name=name)


@pytest.mark.parametrize("replicas", [0, 4])
def test_a_metric_that_is_wrong_under_a_mask_is_that_of_the_examples(tmp_path, replicas):
    held_out = X[:HELD_OUT], Y[:HELD_OUT]
    tasks.define(
        "padded",
        network=lambda: keras.Sequential([keras.layers.Dense(3, "softmax")]),
        data={"train": (X, Y), "validation": held_out},
        loss="categorical_crossentropy",
        metrics=["accuracy", Rows(), f1("micro", "f1_micro"), f1("macro", "f1_macro")],
    )
    config = new_config("padded")
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


@pytest.mark.parametrize("metric", [Rows(), keras.metrics.MeanIoU(2, name="iou")])
def test_where_a_batch_keeps_its_shape_it_is_refused_by_name(metric):
    own_parts.check_masked([metric], LABEL, OUTPUT, "mine", is_static=False)
    right = ["accuracy", keras.metrics.AUC(), keras.metrics.CategoricalAccuracy(), f1("macro", "f1")]
    own_parts.check_masked(right, LABEL, OUTPUT, "mine", is_static=True)
    with pytest.raises(InputError, match=f"task mine: metric '{metric.name}' is wrong under a mask"):
        own_parts.check_masked([*right, metric], LABEL, OUTPUT, "mine", is_static=True)


def test_a_metric_of_several_numbers_is_refused():
    with pytest.raises(InputError, match=r"metric 'each' is \[3\] numbers; expected one"):
        own_parts.check_masked([f1(None, "each")], LABEL, OUTPUT, "mine", is_static=False)
