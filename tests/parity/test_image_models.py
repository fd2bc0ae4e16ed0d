"""ResNets beside tf-models-official's and Keras' blocks: the same outputs with the weights copied."""

import keras
import numpy as np
import pytest
import tf_keras

from tfbigbatch.models import resnet

REASON = "tf-models-official is not installed: make setup"
# At 32n + 1 pixels every layer of stride 2 sees an odd size, where TensorFlow's 'same' pads alike on both sides.
SIZE = 65
# A quarter of the width, for speed.
FIELDS = {"image_size": SIZE, "classes": 7, "width": 16, "blocks": (3, 4, 6, 3), "bottleneck": True}


def with_random_weights(version):
    """A ResNet-50 without zero gammas, pixels, and the pixels as its first layer makes them."""
    random = np.random.RandomState(0)
    model = resnet.resnet(**FIELDS, version=version)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            shape = layer.gamma.shape
            layer.set_weights([random.uniform(0.5, 1.5, shape), *random.normal(0, 0.2, (2, *shape)), np.ones(shape)])
            # The next pass leaves moving averages that belong to the weights: those of its batch.
            layer.momentum = 0.0
    pixels = random.randint(0, 256, (4, SIZE, SIZE, 3)).astype(np.uint8)
    normalized = keras.Model(model.input, model.get_layer("normalization").output)(pixels)
    model(pixels, training=True)
    return model, pixels, normalized


def parameters(variables):
    return sum(int(np.prod(variable.shape)) for variable in variables)


def assert_same(ours, theirs):
    assert np.abs(ours).max() > 0.05
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(ours).max())


@pytest.mark.slow
def test_resnet50_is_tf_models_officials():
    backbones = pytest.importorskip("official.vision.modeling.backbones", reason=REASON)
    classification = pytest.importorskip("official.vision.modeling.classification_model", reason=REASON)
    ours, pixels, normalized = with_random_weights(version=1)
    specification = tf_keras.layers.InputSpec(shape=[None, SIZE, SIZE, 3])
    backbone = backbones.ResNet(50, specification, depth_multiplier=0.25, norm_momentum=0.9, norm_epsilon=1e-5)
    theirs = classification.ClassificationModel(backbone, 7, specification)
    assert parameters(ours.trainable_variables) == parameters(theirs.trainable_variables)

    def copy(their_layer, name):
        their_layer.set_weights(ours.get_layer(name).get_weights())

    stem = [layer for layer in backbone.layers if layer.weights and "bottleneck" not in layer.name]
    blocks = [layer for layer in backbone.layers if "bottleneck" in layer.name]
    for their_layer, name in zip(stem, ("stem_conv", "stem_bn"), strict=True):
        copy(their_layer, name)
    names = [f"stage{stage}_block{block}" for stage, n in enumerate((3, 4, 6, 3), 1) for block in range(1, n + 1)]
    for block, name in zip(blocks, names, strict=True):
        for number in (1, 2, 3):
            copy(getattr(block, f"_conv{number}"), f"{name}_conv{number}")
            copy(getattr(block, f"_norm{number}"), f"{name}_bn{number}")
        if name.endswith("block1"):
            copy(block._shortcut, f"{name}_shortcut_conv")
            copy(block._norm0, f"{name}_shortcut_bn")
    copy(theirs.layers[-1], "logits")
    assert_same(ours(pixels), theirs(normalized))
    assert_same(ours(pixels, training=True), theirs(normalized, training=True))


@pytest.mark.slow
def test_resnet50_v2_is_made_of_keras_applications_blocks():
    """Keras' own ResNet50V2 has the strides at the stages' ends and some biases: its blocks, put in our order."""
    applications = pytest.importorskip("keras.src.applications.resnet")
    ours, pixels, normalized = with_random_weights(version=2)
    inputs = keras.Input((SIZE, SIZE, 3))
    x = keras.layers.Conv2D(16, 7, 2, "same", use_bias=False, name="stem_conv")(inputs)
    x = keras.layers.MaxPooling2D(3, 2, "same")(x)
    names = {"stem_conv": "stem_conv", "last_bn": "last_bn", "logits": "logits"}
    parts = {"preact_bn": "bn1", "1_conv": "conv1", "1_bn": "bn2", "2_conv": "conv2", "2_bn": "bn3", "3_conv": "conv3"}
    for stage, count in enumerate((3, 4, 6, 3), start=1):
        for block in range(1, count + 1):
            name, first = f"stage{stage}_block{block}", block == 1
            x = applications.residual_block_v2(
                x, 8 * 2**stage, stride=2 if first and stage > 1 else 1, conv_shortcut=first, name=name
            )
            names.update({f"{name}_{part}": f"{name}_{mine}" for part, mine in parts.items()})
            names.update({f"{name}_0_conv": f"{name}_shortcut_conv"} if first else {})
    x = keras.layers.ReLU()(keras.layers.BatchNormalization(name="last_bn")(x))
    x = keras.layers.GlobalAveragePooling2D()(x)
    theirs = keras.Model(inputs, keras.layers.Dense(7, name="logits")(x))
    for their_name, name in names.items():
        layer, weights = theirs.get_layer(their_name), ours.get_layer(name).get_weights()
        # Some of their convolutions have a bias.
        layer.set_weights(weights + [np.zeros(weights[0].shape[-1])] * (len(layer.weights) - len(weights)))
    for layer in theirs.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.epsilon = 1e-5
    biases = [each for each in theirs.trainable_variables if "bias" in each.name and "logits" not in each.path]
    assert parameters(ours.trainable_variables) == parameters(theirs.trainable_variables) - parameters(biases)
    assert set(names) == {layer.name for layer in theirs.layers if layer.weights}
    assert_same(ours(pixels), theirs(normalized))
    assert_same(ours(pixels, training=True), theirs(normalized, training=True))
