"""Recomputation: the same bits and the same variables as without, and a second forward pass that is not merged."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from tests.conftest import mirrored
from tfbigbatch.models import bert, image_models
from tfbigbatch.models.image_layers import FusedBatchNormalization
from tfbigbatch.models.recompute import in_turn

EXAMPLES = 4


@pytest.fixture(autouse=True)
def arithmetic_as_written():
    """TensorFlow's optimizer rewrites arithmetic by who else reads a result, which is rounded otherwise."""
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    yield
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": True})


@keras.saving.register_keras_serializable("tests")
class Parts(keras.layers.Layer):
    """Convolutions with batch normalisation and dropout, two blocks of them."""

    def __init__(self, recompute, **options):
        super().__init__(**options)
        layers = keras.layers
        self.parts = [
            [
                layers.Conv2D(6, 3, padding="same", use_bias=False, name=f"conv{number}"),
                FusedBatchNormalization(momentum=0.9, name=f"norm{number}"),
                layers.ReLU(name=f"relu{number}"),
                layers.Dropout(0.3, seed=number, name=f"dropout{number}"),
            ]
            for number in range(2)
        ]
        self.recompute = recompute

    def build(self, shape):
        for layer in (layer for part in self.parts for layer in part):
            layer.build(shape)
            shape = layer.compute_output_shape(shape)

    def call(self, values, training=None):
        for part in self.parts:
            values = in_turn(part, self.recompute)(values, training=training)
        return values


def with_dropout(recompute):
    images = keras.Input((8, 8, 3), name="images")
    features = keras.layers.GlobalAveragePooling2D(name="pool")(Parts(recompute, name="parts")(images))
    return keras.Model(images, keras.layers.Dense(3, dtype="float32", name="logits")(features))


tiny_bert = functools.partial(
    bert.classifier, classes=3, vocabulary_size=20, layers=2, hidden_units=8, heads=2, inner_units=16
)
resnet = functools.partial(image_models.build, "resnet", image_size=8, classes=3, width=8, blocks=(1, 1))
NETWORKS = {
    "dropout": with_dropout,
    "bert": tiny_bert,
    "resnet": resnet,
    "resnet, version 2": functools.partial(resnet, version=2, bottleneck=True),
}


def loss_of(outputs):
    return tf.reduce_mean(tf.square(tf.cast(outputs, tf.float32) - 1.0))


def batch_of(model):
    """Images, or the tokens, mask and segments of texts of six tokens."""
    draws, limit = np.random.RandomState(0), 2 if isinstance(model.input, dict) else 256

    def drawn(each):
        return tf.constant(draws.randint(0, limit, [size or 6 for size in (EXAMPLES, *each.shape[1:])]), each.dtype)

    return tf.nest.map_structure(drawn, model.input)


def trained(name, recompute, *, strategy=None, policy="float32", jit_compile=None):
    """Losses of three steps, and the variables by path: weights, statistics and seeds."""
    keras.utils.clear_session()
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = NETWORKS[name](recompute=recompute)
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)

    def in_replica(batch):
        with tf.GradientTape() as tape:
            loss = loss_of(model(batch, training=True))
        gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    batch = batch_of(model)
    step = tf.function(lambda: strategy.run(in_replica, args=(batch,)), autograph=False, jit_compile=jit_compile)
    losses = [[each.numpy() for each in strategy.experimental_local_results(step())] for _ in range(3)]
    return losses, {each.path: np.asarray(each) for each in model.variables}


def assert_same_bits(name, **options):
    kept, again = (trained(name, recompute, **options) for recompute in (False, True))
    assert kept[1].keys() == again[1].keys()
    np.testing.assert_equal(again, kept)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["dropout", "bert", "resnet", pytest.param("resnet, version 2", marks=SLOW)])
def test_steps_end_in_the_same_bits(name):
    assert_same_bits(name)


@pytest.mark.parametrize(
    "name", ["dropout", *[pytest.param(name, marks=SLOW) for name in NETWORKS if name != "dropout"]]
)
def test_two_replicas_in_bfloat16_end_in_the_same_bits(name):
    assert_same_bits(name, strategy=mirrored(2), policy="mixed_bfloat16")


def test_under_xla_the_numbers_are_the_same_too():
    kept, again = (trained("dropout", recompute, jit_compile=True) for recompute in (False, True))
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), again, kept)


def test_the_gradient_can_be_differentiated_again():
    def curvature(recompute):
        keras.utils.set_random_seed(1)
        model = with_dropout(recompute)
        weights = [each.value for each in model.trainable_variables]
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = loss_of(model(tf.random.stateless_normal([2, 8, 8, 3], [1, 2]), training=True))
            gradients = tape.gradient(loss, weights)
            squares = sum(tf.reduce_sum(tf.square(each)) for each in gradients)
        return outer.gradient(squares, weights)

    for again, kept in zip(curvature(True), curvature(False), strict=True):
        np.testing.assert_allclose(again, kept, rtol=1e-4, atol=1e-6)


def products_in_tensorflow(recompute):
    """MatMul in the graph that TensorFlow runs, after its optimizer."""
    layers = [keras.layers.Dense(32, activation="tanh", name=f"dense_{layer}") for layer in range(3)]
    in_turn(layers, False)(keras.Input((32,)))

    @tf.function
    def gradients(values):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(in_turn(layers, recompute)(values, training=True)))
        return tape.gradient(loss, [each.value for layer in layers for each in layer.trainable_variables])

    context.enable_run_metadata()
    gradients(tf.ones([64, 32]))
    graphs = [each.post_optimization_graph for each in context.export_run_metadata().function_graphs]
    context.disable_run_metadata()
    return max(sum("MatMul" in node.op for node in graph.node) for graph in graphs)


def test_the_second_pass_is_not_merged_with_the_first():
    kept = products_in_tensorflow(False)
    # Three layers forward, and backward three products for the weights and two for the inputs.
    assert kept == 8 and products_in_tensorflow(True) == 11
