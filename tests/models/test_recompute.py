"""Recomputation: the same bits and the same variables as without, and a second forward pass that is not merged."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.eager import context

from tests.conftest import mirrored
from tfbigbatch.models import bert, image_models
from tfbigbatch.models.gnmt import gnmt
from tfbigbatch.models.recompute import in_turn
from tfbigbatch.training.train_step import TrainingModel

EXAMPLES = 4


@pytest.fixture(autouse=True)
def arithmetic_as_written():
    """TensorFlow's optimizer rewrites arithmetic by who else reads a result, which is rounded otherwise."""
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    yield
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": True})


def words(vocabulary, length, random):
    return tf.constant(random.randint(1, vocabulary, (EXAMPLES, length)), tf.int32)


def bert_features(random):
    return {
        "input_word_ids": words(40, 10, random),
        "input_mask": tf.constant([[1] * 7 + [0] * 3] * EXAMPLES),
        "input_type_ids": tf.zeros([EXAMPLES, 10], tf.int32),
        "masked_lm_positions": words(6, 3, random),
    }


def images(random):
    return tf.constant(random.randint(0, 256, (EXAMPLES, 16, 16, 3)), tf.uint8)


def sentences(random):
    return {
        "source_ids": words(20, 5, random),
        "source_lengths": tf.constant([5, 3, 4, 5]),
        "target_ids": words(20, 6, random),
    }


BERT = {"vocabulary_size": 40, "layers": 1, "hidden_units": 8, "heads": 2, "inner_units": 12, "max_positions": 16}
GNMT = {"vocabulary_size": 20, "hidden_units": 8, "encoder_layers": 3, "decoder_layers": 3}
resnet = functools.partial(image_models.build, "resnet", image_size=16, classes=3, width=8, blocks=(1, 1))
NETWORKS = {
    "bert": (functools.partial(bert.pretrainer, **BERT), bert_features),
    "resnet": (resnet, images),
    "resnet, version 2": (functools.partial(resnet, version=2, bottleneck=True), images),
    "gnmt": (functools.partial(gnmt, **GNMT), sentences),
}


def square_loss(labels, outputs):
    return tf.reduce_mean(tf.square(tf.reshape(outputs, [tf.shape(outputs)[0], -1]) - labels), axis=-1)


def trained(name, recomputes, *, strategy=None, policy="float32", accumulation_steps=1, jit_compile=None):
    """What a checkpoint holds after two steps: variables by name, and the states of random generators."""
    build, features = NETWORKS[name]
    tf_keras.backend.clear_session()
    tf_keras.backend.experimental.enable_tf_random_generator()
    tf_keras.mixed_precision.set_global_policy(policy)
    tf_keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    with (strategy or tf.distribute.get_strategy()).scope():
        model = TrainingModel(build(recompute=recomputes), accumulation_steps, metrics_in_training=False)
        model.compile(tf_keras.optimizers.SGD(0.1, momentum=0.9), square_loss, jit_compile=jit_compile)
    x = features(np.random.RandomState(0))
    outputs = model.network.output
    y = {key: tf.ones([EXAMPLES, 1]) for key in outputs} if isinstance(outputs, dict) else tf.ones([EXAMPLES, 1])
    data = tf.data.Dataset.from_tensors((x, y)).unbatch().batch(EXAMPLES, drop_remainder=True).repeat(2)
    model.fit(data, verbose=0)
    states = [each._random_generator._generator.state for each in dropouts(model.network)]
    variables = [*model.network.variables, *model.optimizer.variables]
    return {each.name: each.numpy() for each in variables}, [each.numpy() for each in states]


def dropouts(network):
    return [each for each in network.submodules if isinstance(each, tf_keras.layers.Dropout) and each.rate]


def assert_same_bits(name, **fields):
    np.testing.assert_equal(trained(name, True, **fields), trained(name, False, **fields))


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "resnet, version 2", "gnmt")]


@pytest.mark.parametrize("name", ["resnet", *SLOW])
def test_steps_end_in_the_same_bits(name):
    assert_same_bits(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_two_replicas_that_accumulate_in_bfloat16_end_in_the_same_bits(name):
    assert_same_bits(name, strategy=mirrored(2), accumulation_steps=2, policy="mixed_bfloat16")


def products_in_tensorflow(recomputes):
    """MatMul in the graph that TensorFlow runs, after its optimizer."""
    layers = [tf_keras.layers.Dense(32, activation="tanh", name=f"dense_{layer}") for layer in range(3)]
    in_turn(layers, False)(tf_keras.Input((32,)))

    @tf.function
    def gradients(values):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(in_turn(layers, recomputes)(values, training=True)))
        return tape.gradient(loss, [variable for layer in layers for variable in layer.trainable_variables])

    context.enable_run_metadata()
    gradients(tf.ones([64, 32]))
    graphs = [each.post_optimization_graph for each in context.export_run_metadata().function_graphs]
    context.disable_run_metadata()
    return max(sum("MatMul" in node.op for node in graph.node) for graph in graphs)


def test_the_second_pass_is_not_merged_with_the_first():
    kept = products_in_tensorflow(False)
    # Three layers forward, and backward three products for the weights and two for the inputs.
    assert kept == 8 and products_in_tensorflow(True) == 11
