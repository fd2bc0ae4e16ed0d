"""One table test over every registered image model; one left out of the registry fails."""

import importlib
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import preloaded
from tfbigbatch.models import image_models
from tfbigbatch.models.image_layers import FusedBatchNormalization

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
    return loss, tape.gradient(loss, [each.value for each in model.trainable_variables])


def test_every_function_that_builds_an_image_model_is_registered():
    registered = {model.function for model in image_models._MODELS.values()}
    found = set()
    for file in ("alexnet", "resnet"):
        functions = inspect.getmembers(importlib.import_module(f"tfbigbatch.models.{file}"), inspect.isfunction)
        here = [name for name, each in functions if each.__module__.endswith(file)]
        found |= {f"{file}.{name}" for name in here if not name.startswith("_")}
    assert found == registered


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEEP)) for name in image_models.NAMES]
)
def test_a_model_trains_in_bfloat16_and_is_saved(name, tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = build(name)
    assert model.name == name and model.input.dtype == "uint8" and model.input.shape == (None, 64, 64, 3)
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    assert {layer.compute_dtype for layer in convolutions} == {"bfloat16"}
    _, gradients = loss_and_gradients(model, pixels())
    for gradient, variable in zip(gradients, model.trainable_variables):
        assert variable.dtype == "float32"
        assert gradient is not None and np.isfinite(gradient).all(), variable.path
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    logits = model(pixels())
    assert logits.dtype == tf.float32 and logits.shape == (4, 5) and np.isfinite(logits).all()
    np.testing.assert_array_equal(again(pixels()), logits)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fused_batch_normalization_is_that_of_keras(dtype, jit_compile):
    def trained(layer):
        """Outputs, gradients and variables after a training call, and the outputs of inference."""
        layer.build((None, 3, 3, 5))
        layer.set_weights([np.linspace(first, first + 1, 5) for first in range(1, 5)])

        @tf.function(jit_compile=jit_compile, autograph=False)
        def step(values):
            with tf.GradientTape() as tape:
                tape.watch(values)
                outputs = layer(values, training=True)
                loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 3)
            return outputs, *tape.gradient(loss, [values, *[each.value for each in layer.trainable_variables]])

        values = tf.random.stateless_normal([2, 3, 3, 5], [1, 2], 4.0, 2.0)
        found = [*step(values), *layer.get_weights(), layer(values, training=False)]
        return [tf.cast(each, tf.float32).numpy() for each in found]

    options = {"momentum": 0.8, "epsilon": 1e-3, "dtype": keras.DTypePolicy(dtype)}
    fused, plain = FusedBatchNormalization(**options), keras.layers.BatchNormalization(**options)
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    for found, expected in zip(trained(fused), trained(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    config = fused.get_config()
    assert keras.layers.BatchNormalization.from_config(config).get_config() == config


def test_a_saved_model_loads_where_tfbigbatch_is_imported(tmp_path):
    model = image_models.build("resnet", image_size=16, classes=3, width=4, blocks=(1,), recompute=True)
    other = image_models.build("alexnet", image_size=15, stem="5x5", classes=3, width=6, fc_units=4)
    for number, each in enumerate((model, other)):
        each.save(tmp_path / f"{number}.keras")
    program = tmp_path / "load.py"
    program.write_text(
        "import sys, tfbigbatch, keras\nfor path in sys.argv[1:]: print(keras.saving.load_model(path).count_params())\n"
    )
    done = preloaded.run(str(program), tmp_path / "0.keras", tmp_path / "1.keras")
    assert done.stdout.split() == [str(model.count_params()), str(other.count_params())], done.stderr[-2000:]


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


@pytest.mark.parametrize("name", ["resnet", "alexnet_bn"])
def test_cross_replica_norm_is_that_of_keras(name):
    for shared in (False, True):
        norms = [each for each in build(name, cross_replica_norm=shared).layers if hasattr(each, "synchronized")]
        assert norms and all(each.synchronized == shared for each in norms)


def test_unknown_names_and_fields_are_told_the_nearest():
    with pytest.raises(ValueError, match="model 'resnet51' is unknown. Did you mean 'resnet50'"):
        image_models.build("resnet51", image_size=64, classes=5)
    with pytest.raises(ValueError, match="model 'resnet50' has no field 'widht'. Did you mean 'width'"):
        image_models.build("resnet50", image_size=64, classes=5, widht=8)
