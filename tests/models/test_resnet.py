import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import without_values
from tfbigbatch.models import resnet
from tfbigbatch.models.image_layers import CHANNEL_DEVIATIONS, CHANNEL_MEANS
from tfbigbatch.optimizers.exclusions import is_excluded

IMAGENET = {"image_size": 224, "classes": 1000}
SMALL = {"image_size": 32, "classes": 10}


@pytest.fixture(scope="module")
def resnet50():
    return without_values(resnet.imagenet_resnet, depth=50, **IMAGENET)


@pytest.fixture(scope="module")
def resnet50_v2():
    return without_values(resnet.imagenet_resnet, depth=50, version=2, **IMAGENET)


def trainable(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


@pytest.mark.parametrize(
    "depth, parameters",
    [
        (50, 25_557_032),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((18, 11_689_512), (34, 21_797_672), (101, 44_549_160), (152, 60_192_808))
        ),
    ],
)
def test_the_published_parameter_counts(depth, parameters):
    assert trainable(without_values(resnet.imagenet_resnet, depth=depth, **IMAGENET)) == parameters


def test_the_parameter_counts_of_other_networks(resnet50_v2):
    assert trainable(resnet50_v2) == 25_549_352
    # With projections; the paper's zero-padded shortcuts would be 2,752 fewer, the 0.27 million of its table.
    assert trainable(without_values(resnet.cifar_resnet, depth=20, **SMALL)) == 272_474


@pytest.mark.parametrize("version", [1, 2])
def test_shapes_per_stage(version, resnet50, resnet50_v2):
    model = (resnet50, resnet50_v2)[version - 1]
    assert model.get_layer("stem_conv").output.shape == (None, 112, 112, 64)
    assert model.get_layer("stem_pool").output.shape == (None, 56, 56, 64)
    last = "relu" if version == 1 else "add"
    for stage, (blocks, size) in enumerate([(3, 56), (4, 28), (6, 14), (3, 7)], start=1):
        layer = model.get_layer(f"stage{stage}_block{blocks}_{last}")
        assert layer.output.shape == (None, size, size, 128 * 2**stage)
    # v1.5: the first 1x1 convolution of a stage keeps the size, the 3x3 halves it.
    assert model.get_layer("stage2_block1_conv1").output.shape == (None, 56, 56, 128)
    assert model.get_layer("stage2_block1_conv2").output.shape == (None, 28, 28, 128)


def test_layers_begin_as_documented():
    for version in (1, 2):
        model = resnet.imagenet_resnet(depth=50, version=version, image_size=64, classes=1000, width=32)
        norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
        assert {(norm.momentum, norm.epsilon) for norm in norms} == {(0.9, 1e-5)}
        zeros = [norm.name for norm in norms if not norm.gamma.numpy().any()]
        ones = [norm for norm in norms if (norm.gamma.numpy() == 1).all()]
        assert len(zeros) + len(ones) == len(norms)
        assert len(zeros) == (16 if version == 1 else 0) and all(name.endswith("_bn3") for name in zeros)
        kernel, bias = model.get_layer("logits").get_weights()
        assert kernel.std() == pytest.approx(0.01, rel=0.01) and abs(kernel.mean()) < 1e-4 and not bias.any()
        for name in ("stem_conv", "stage3_block2_conv2", "stage4_block1_shortcut_conv"):
            [kernel] = model.get_layer(name).get_weights()
            deviation = np.prod(kernel.shape[:3]) ** -0.5
            assert kernel.std() == pytest.approx(deviation, rel=0.03)
            # Cut off at two deviations of the uncut normal.
            assert np.abs(kernel).max() < 2.3 * deviation


def test_an_exclusion_leaves_out_every_norm_and_bias_and_nothing_else(resnet50):
    for variable in resnet50.trainable_variables:
        excluded = is_excluded(variable.path, "norm_and_bias")
        assert excluded == (len(variable.shape) == 1), variable.path
        assert not excluded or variable.path.endswith(("gamma", "beta", "bias"))
    paths = {variable.path for variable in resnet50.trainable_variables}
    assert {"stage2_block1_conv2/kernel", "stage2_block1_bn2/gamma", "logits/bias"} <= paths


def outputs(model, names, images):
    return keras.Model(model.input, [model.get_layer(name).output for name in names])(images, training=True)


def images_of(size, batch=2):
    return np.random.RandomState(0).randint(0, 256, (batch, size, size, 3)).astype(np.uint8)


@pytest.mark.parametrize("bottleneck", [False, True])
def test_blocks_of_version_1_begin_as_the_identity(bottleneck):
    model = resnet.resnet(**SMALL, blocks=(3, 2), width=16, bottleneck=bottleneck, stem="3x3")
    names = ["stage1_block1_relu", "stage1_block2_relu", "stage1_block3_relu", "stage2_block1_relu"]
    first, second, third, projected, shortcut, last = outputs(
        model, [*names, "stage2_block1_shortcut_bn", "stage2_block2_relu"], images_of(32)
    )
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(second, third)
    np.testing.assert_array_equal(projected, np.maximum(shortcut, 0))
    np.testing.assert_array_equal(last, projected)


@pytest.mark.parametrize("bottleneck", [False, True])
def test_version_2_gives_every_weight_a_gradient_at_once(bottleneck):
    model = resnet.resnet(**SMALL, blocks=(2, 2), width=16, bottleneck=bottleneck, version=2, stem="3x3")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(images_of(32), training=True)))
    gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
    for gradient, variable in zip(gradients, model.trainable_variables):
        assert np.abs(gradient).max() > 0, variable.path


def test_strided_convolutions_are_padded_alike_on_both_sides():
    model = resnet.resnet(**SMALL, blocks=(1, 1), width=8)
    normalized, stem, before, after = outputs(
        model, ["normalization", "stem_conv", "stage1_block1_relu", "stage2_block1_conv1"], images_of(32)
    )
    expected = (images_of(32) - np.array(CHANNEL_MEANS)) / np.array(CHANNEL_DEVIATIONS)
    np.testing.assert_allclose(normalized, expected, atol=1e-5)
    for values, result, name, pad in ((normalized, stem, "stem_conv", 3), (before, after, "stage2_block1_conv1", 1)):
        padding = [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        direct = tf.nn.conv2d(values, model.get_layer(name).kernel, 2, padding)
        np.testing.assert_allclose(result, direct, atol=1e-5)
