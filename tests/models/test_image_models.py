"""One table test over every registered image model; one left out of the registry fails."""

import importlib
import inspect

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.conftest import mirrored
from tfbigbatch.models import image_models, resnet

# They pass the same code as the shorter ones.
DEEP = [f"resnet{depth}{suffix}" for depth in (14, 18, 34, 50, 101, 152) for suffix in ("", "_v2")]


def build(name, **arguments):
    """A registered model, narrow, for 64 pixels and 5 classes."""
    narrow = {"width": 6, "fc_units": 8} if name.startswith("alexnet") else {"width": 4}
    return image_models.build(name, image_size=64, classes=5, **{**narrow, **arguments})


def pixels(batch=4):
    return np.random.RandomState(0).randint(0, 256, (batch, 64, 64, 3)).astype(np.uint8)


def loss_and_gradients(model, images):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        labels = tf.range(len(images)) % 5
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return loss, tape.gradient(loss, model.trainable_variables)


def test_every_function_that_builds_an_image_model_is_registered():
    registered = {model.function for model in image_models._MODELS.values()}
    found = set()
    for file in ("alexnet", "resnet"):
        functions = inspect.getmembers(importlib.import_module(f"tfbigbatch.models.{file}"), inspect.isfunction)
        here = [name for name, each in functions if each.__module__.endswith(file)]
        found |= {f"{file}.{name}" for name in here if not name.startswith("_")}
    assert found == registered
    assert {f"resnet{depth}{suffix}" for depth in resnet.DEPTHS for suffix in ("", "_v2")} <= set(image_models.NAMES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEEP)) for name in image_models.NAMES]
)
def test_a_model_trains_in_bfloat16_and_is_serialisable(name):
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = build(name)
    assert model.name == name and model.input.dtype == tf.uint8 and model.input_shape == (None, 64, 64, 3)
    convolutions = [layer for layer in model.layers if isinstance(layer, tf_keras.layers.Conv2D)]
    assert {layer.compute_dtype for layer in convolutions} == {"bfloat16"}
    _, gradients = loss_and_gradients(model, pixels())
    for gradient, variable in zip(gradients, model.trainable_variables):
        assert variable.dtype == tf.float32
        assert gradient is not None and np.isfinite(gradient).all(), variable.name
    again = type(model).from_config(model.get_config())
    again.set_weights(model.get_weights())
    logits = model(pixels())
    assert logits.dtype == tf.float32 and logits.shape == (4, 5) and np.isfinite(logits).all()
    np.testing.assert_array_equal(again(pixels()), logits)


@pytest.mark.parametrize(
    "name, fields",
    [
        pytest.param("alexnet", {"dropout": 0.0}, marks=pytest.mark.slow),
        pytest.param("resnet", {"blocks": (1, 1), "version": 1}, marks=pytest.mark.slow),
        ("resnet", {"blocks": (1, 1), "version": 2, "bottleneck": True, "stem": "7x7_pool"}),
    ],
)
def test_xla_compiles_a_training_pass_to_the_same_numbers(name, fields):
    model = build(name, **fields)

    def step(images):
        return loss_and_gradients(model, images)

    plain, fused = (tf.function(step, jit_compile=compiled)(pixels()) for compiled in (False, True))
    scale = max(np.abs(gradient).max() for gradient in plain[1])
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * scale), plain, fused)


def test_cross_replica_norm_sees_the_batch_of_all_replicas():
    fields = {"blocks": (1, 1)}
    images = pixels()
    # Two halves with statistics of their own.
    images[2:] //= 4
    strategy = mirrored(2)
    results = {}
    for cross_replica_norm in (False, True):
        tf_keras.utils.set_random_seed(0)
        whole = build("resnet", **fields)
        with strategy.scope():
            model = build("resnet", cross_replica_norm=cross_replica_norm, **fields)
        model.set_weights(whole.get_weights())

        @tf.function
        def run(halves, model=model):
            return strategy.run(lambda half: model(half, training=True), args=(halves,))

        def half_of(context):
            start = 2 * context.replica_id_in_sync_group
            return tf.constant(images[start : start + 2])

        halves = run(strategy.experimental_distribute_values_from_function(half_of))
        together = np.concatenate(strategy.experimental_local_results(halves))
        results[cross_replica_norm] = np.abs(together - whole(images, training=True)).max() / np.abs(together).max()
    assert results[True] < 1e-4 and results[False] > 1e-2


def test_unknown_names_and_fields_are_told_the_nearest():
    with pytest.raises(ValueError, match="model 'resnet51' is unknown. Did you mean 'resnet50'"):
        image_models.build("resnet51", image_size=64, classes=5)
    with pytest.raises(ValueError, match="model 'resnet50' has no field 'widht'. Did you mean 'width'"):
        image_models.build("resnet50", image_size=64, classes=5, widht=8)
