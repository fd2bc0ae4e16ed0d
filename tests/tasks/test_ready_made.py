"""tasks.define: what it takes, what it refuses, and what a network, loss and metrics of each kind become."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch import tasks
from tfbigbatch.config import new_config
from tfbigbatch.tasks import own_parts

FEATURES, TARGETS = np.arange(60.0).reshape(20, 3), np.arange(20.0)
LABELS = np.arange(20) % 4
PAIRS = tf.data.Dataset.from_tensor_slices((FEATURES, TARGETS))


def linear(width=2):
    return keras.Sequential([keras.layers.Dense(width), keras.layers.Dense(1)])


def classifier(input_shape, classes):
    return keras.Sequential([keras.Input(input_shape), keras.layers.Dense(classes)])


def made(use_fake_data=False, data_dir=None, **options):
    """The task of a definition, at its defaults."""
    tasks.define("mine", **{"network": linear, "data": (FEATURES, TARGETS), "loss": "mse", **options})
    config = new_config("mine")
    return tasks.get("mine")(
        model=config.model.to_dict(), data=config.data.to_dict(), data_dir=data_dir, use_fake_data=use_fake_data
    )


def compiled(task):
    """The model of a task, as the trainer compiles it."""
    network, loss = task.network(), task.loss()
    options = {"loss_weights": task.loss_weights(), "weighted_metrics": task.metrics()}
    keras.Model.compile(network, "sgd", loss, **options)
    return network


def evaluated(task, split="validation", batch_size=8):
    """The metrics of a held-out split, whose last batch is padded."""
    network, found = compiled(task), {}
    for features, labels, mask in task.held_out(split).evaluation_batches(
        tf.distribute.InputContext(), batch_size=batch_size
    ):
        outputs = network(features, training=False)
        found = network.compute_metrics(features, *task.real_examples(labels, outputs, mask))
    return {name: float(value) for name, value in found.items()}


def test_arguments_with_defaults_are_fields_and_the_loss_is_the_first_metric():
    def data(data_dir=None, noise=0.5):
        return {"train": (FEATURES, TARGETS + noise), "validation": (FEATURES, TARGETS)}

    task = made(data=data)
    config = new_config("mine")
    assert config.model.to_dict() == {"width": 2} and config.data.to_dict() == {"noise": 0.5}
    assert type(task).target == "mse" and not type(task).higher_is_better
    assert len(task.train) == 20 and task.network().layers[0].kernel.shape == (3, 2)
    assert type(task).count_examples({"noise": 0.0}, None) == 20


def test_examples_that_are_held_out_do_not_count():
    task = made(validation_fraction=0.25)
    assert len(task.train) == type(task).count_examples({}, None) == 15 and len(task.validation) == 5


def test_a_padded_evaluation_counts_each_example_once_with_its_weight():
    weights = np.where(np.arange(20) % 2, 1.0, 3.0)

    def absolute(labels, outputs):
        return tf.abs(labels - outputs)[:, 0]

    def network():
        return keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros")])

    splits = {"train": (FEATURES, TARGETS), "validation": (FEATURES, TARGETS, weights)}
    metrics = ["mae", absolute, keras.metrics.RootMeanSquaredError()]
    found = evaluated(made(network=network, data=splits, metrics=metrics))
    mean = np.average(TARGETS, weights=weights)
    assert found["mae"] == pytest.approx(mean) and found["absolute"] == pytest.approx(mean)
    square = np.average(TARGETS**2, weights=weights)
    assert found["root_mean_squared_error"] == pytest.approx(square**0.5)


def test_a_classifier_by_default():
    task = made(network=classifier, data=(FEATURES, LABELS), loss=None)
    assert task.network().outputs[0].shape == (None, 4)
    assert type(task).target == "accuracy" and type(task).higher_is_better
    assert set(evaluated(task)) >= {"cross_entropy", "accuracy"}

    def ends_in_softmax(classes):
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(classes, "softmax")])

    with pytest.raises(ValueError, match="ends in softmax, and the default loss .* takes logits"):
        compiled(made(network=ends_in_softmax, data=(FEATURES, LABELS), loss=None))


@pytest.mark.slow
def test_several_labels_and_several_outputs():
    def network():
        inputs = {"a": keras.Input((3,), name="a"), "words": keras.Input((1,), dtype="string", name="words")}
        hashed = keras.layers.Hashing(5, output_mode="one_hot")(inputs["words"])
        x = keras.layers.concatenate([inputs["a"], hashed])
        outputs = {
            "tags": keras.layers.Dense(4, "sigmoid", name="tags")(x),
            "size": keras.layers.Dense(1, name="size")(x),
        }
        return keras.Model(inputs, outputs)

    words = np.array([["one"], ["two"]] * 10)
    labels = {"tags": np.eye(4)[LABELS], "size": TARGETS}
    task = made(
        network=network,
        data=({"a": FEATURES, "words": words}, labels),
        loss={"tags": "binary_crossentropy", "size": "mse"},
        loss_weights={"tags": 2.0, "size": 0.5},
        metrics={"tags": ["binary_accuracy", keras.metrics.AUC(multi_label=True)], "size": ["mae"]},
        target="tags_binary_accuracy",
    )
    model = compiled(task)
    outputs = model({"a": FEATURES, "words": words})
    parts = {
        "tags": keras.losses.BinaryCrossentropy()(labels["tags"], outputs["tags"]),
        "size": keras.losses.MeanSquaredError()(labels["size"][:, np.newaxis], outputs["size"]),
    }
    found = model.compute_loss(y=labels, y_pred=outputs)
    assert float(found) == pytest.approx(2.0 * float(parts["tags"]) + 0.5 * float(parts["size"]))
    # Without their weights.
    [of_size] = [each for each in model.metrics if each.name == "size_loss"]
    assert float(of_size.result()) == pytest.approx(float(parts["size"]))
    assert {"tags_binary_accuracy", "size_mae"} <= set(evaluated(task))


ERRORS = tf.constant([0.5, 0.0, 2.0, 0.5])
# The mean of the squares.
KINDS = {
    "name": "mse",
    "object": keras.losses.MeanSquaredError(),
    "of each example": lambda labels, outputs: tf.reduce_mean(tf.square(labels - outputs), -1),
    "of a batch": lambda labels, outputs: tf.reduce_mean(tf.square(labels - outputs)),
    "factory": lambda: keras.losses.MeanSquaredError(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [1, 2])
def test_losses_of_each_kind_are_the_same(kind, replicas):
    """Replicas add their gradients: each has the mean of its examples divided by their number."""
    strategy = mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,))])
        model.compile(loss=own_parts.loss_of(KINDS[kind], model))

    def in_replica():
        share = 4 // replicas
        first = share * tf.distribute.get_replica_context().replica_id_in_sync_group
        mine = tf.gather(ERRORS, first + tf.range(share))
        return model.compute_loss(y=tf.zeros([share]), y_pred=mine[:, tf.newaxis])

    of_replicas = tf.function(lambda: strategy.run(in_replica))()
    assert float(strategy.reduce("SUM", of_replicas, axis=None)) == pytest.approx(4.5 / 4)


def test_a_compiled_model_is_asked_for_its_loss_where_define_has_it():
    def network():
        model = linear()
        model.compile(loss="mae")
        return model

    assert compiled(made(network=network)).get_compile_config()["loss"] == "mse"
    with pytest.raises(ValueError, match="is compiled, and the trainer compiles it with the loss .* of tasks.define"):
        compiled(made(network=network, loss=None, target="mae"))


def of_batch(labels, outputs):
    return tf.reduce_mean(tf.abs(labels - outputs))


def test_one_number_for_a_batch_is_its_mean_and_refused_where_examples_have_weights():
    found = evaluated(made(metrics=[of_batch, "mae"], target="mae"))
    assert found["of_batch"] == pytest.approx(found["mae"])
    weighted = made(loss=of_batch, metrics=["mae"], data=(FEATURES, TARGETS, TARGETS))
    with pytest.raises(ValueError, match="loss 'of_batch' returns one number for a batch, and the data has weights"):
        compiled(weighted).compute_loss(y=TARGETS, y_pred=TARGETS[:, np.newaxis])


class Renamed(keras.metrics.Mean):
    def __init__(self, given):
        super().__init__("mae")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"metrics": ["mae", "mse"], "target": "rmse"}, "target='rmse', and its metrics are named mae, mse"),
        ({"loss": "mes", "target": "mae", "metrics": ["mae"]}, "loss='mes' is no name of Keras: "),
        ({"metrics": [Renamed(1)]}, "metric 'mae' cannot be made again .* Give metrics=FUNCTION"),
    ],
)
def test_metrics_and_losses_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        compiled(made(**options))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"network": lambda width: None}, "network's argument 'width' has no default"),
        ({"network": lambda name="a": None}, "an argument 'name', which chooses among models"),
        ({"network": lambda layer=keras.layers.Dense: None}, "network's argument 'layer' has the default"),
        ({"network": "resnet"}, "network='resnet'; expected a function"),
        ({"data": lambda folder: None}, "data's argument 'folder' has no default"),
        ({"loss": linear}, "give metrics, and target="),
        ({"metrics": ["mine"]}, "whether a larger mine is better is unknown"),
        ({"validation_fraction": 1.5}, "validation_fraction=1.5; expected a fraction"),
        ({"quick": {"depth": 1}}, "quick has depth; expected arguments of network"),
        ({"metrics": [keras.metrics.AUC]}, r"metrics: AUC is a class; expected an object of it, AUC\(\)"),
        ({"network": linear()}, "network=<.*; expected a function that makes it"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)
    assert "mine" not in tasks.names()


@pytest.mark.parametrize(
    "data, message",
    [
        ({"validation": (FEATURES, TARGETS)}, "its data is splits validation; expected {'train'"),
        ((FEATURES, TARGETS[:-1]), "arrays of different lengths: 20 features, 19 labels"),
        ((FEATURES,), "of 1 parts; expected"),
        (([FEATURES, FEATURES], TARGETS), "2 features, 20 labels; .* give several arrays as a tuple"),
        (([[1.0], [1.0, 2.0]], [1, 2]), "features is list that is no array .* Pad sequences"),
        ((np.where(FEATURES == 4, np.nan, FEATURES), TARGETS), "1 values that are NaN or infinite, .* example 1;"),
        ({"train": FEATURES}, "train is ndarray; expected"),
        ({"train": PAIRS.repeat().filter(lambda *_: True)}, "has no end; .* leave .repeat"),
        ({"train": PAIRS.batch(5, drop_remainder=True).prefetch(1)}, "gives batches; expected single examples"),
        ({"train": tf.data.Dataset.range(3)}, "expected elements"),
        ({"train": tf.data.Dataset.from_tensor_slices((FEATURES, TARGETS)).batch(3)}, "leave .batch.. out"),
        ({"train": tf.data.Dataset.from_tensor_slices((FEATURES, TARGETS))}, "no 'validation', and of TfDataExamples"),
        ({"train": [3.0, (1.0, 2.0)]}, "example 0 is float; expected .features, labels."),
        ({"train": [([1.0, 2.0], 1), ([1.0], "a")]}, None),
    ],
)
def test_data_that_cannot_be_used_is_refused(data, message):
    if message is not None:
        with pytest.raises(ValueError, match=message):
            made(data=data)
    else:
        # Read when the batch is.
        with pytest.raises(Exception, match=r"example 1 has float32 \[1\], and example 0 float32 \[2\]; expected"):
            evaluated(made(data={**data, "validation": data["train"]}))


def test_examples_that_batch_made_of_a_stream_are_taken():
    words = (
        tf.data.Dataset.range(24).batch(4, drop_remainder=True).map(lambda part: (tf.cast(part, tf.float32), part[0]))
    )
    taken = [words, PAIRS.batch(5, drop_remainder=True).unbatch(), PAIRS.repeat().take(7), PAIRS.concatenate(PAIRS)]
    for number, split in enumerate(taken):
        found = made(data={"train": split, "validation": split}).validation
        assert found.contents.startswith(f"{(6, 20, 7, 40)[number]} examples")


@pytest.mark.parametrize("name", ["train_step", "compute_loss"])
def test_a_model_with_a_step_of_its_own_is_refused(name):
    def network(**methods):
        own = type("Own", (keras.Sequential,), methods)
        return lambda: own([keras.Input((3,)), keras.layers.Dense(1)])

    with pytest.raises(ValueError, match=rf"task mine: <lambda>\(\) returned a model with a {name} of its own"):
        made(network=network(**{name: lambda self, *arguments: None})).network()
    made(network=network()).network()


def test_a_model_of_keras_2_is_refused_with_what_takes_it():
    def network():
        return tf_keras.Sequential([tf_keras.layers.Dense(1)])

    said = (
        r"network\(\) returned Sequential of tf_keras .Keras 2.; expected a keras.Model of Keras 3. Write import keras"
    )
    with pytest.raises(ValueError, match=f"task mine: {said} .* tfbigbatch.keras2, as LAMB, and ExactResume"):
        made(network=network).network()


def test_a_sequential_model_without_input_takes_batches_of_any_size():
    [given] = made(network=lambda: keras.Sequential([keras.layers.Dense(1)])).network().inputs
    assert given.shape == (None, 3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"data": lambda: {}["train"]}, r"<lambda>\(\) raised KeyError: 'train' \(.*test_ready_made.py, line"),
        ({"network": lambda: keras.layers.Dense("wide")}, r"<lambda>\(\) raised .*test_ready_made.py, line"),
        (
            {"network": lambda: keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])},
            r"does not take the data's features, float32 \[None, 3\]",
        ),
        ({"network": lambda: 3}, "returned int; expected a keras.Model"),
    ],
)
def test_an_error_of_a_users_function_is_told_where_it_is(options, message):
    with pytest.raises(ValueError, match=f"task mine: .*{message}"):
        made(**options).network()
