import keras
import numpy as np
import pytest

from tests.conftest import without_values
from tfbigbatch.models import image_models, resnet
from tfbigbatch.optimizers.exclusions import is_excluded

IMAGENET = {"image_size": 224, "classes": 1000}
SMALL = {"image_size": 32, "classes": 10}


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
    assert trainable(without_values(image_models.build, name=f"resnet{depth}", **IMAGENET)) == parameters


def test_the_parameter_counts_of_other_networks():
    assert trainable(without_values(image_models.build, name="resnet50_v2", **IMAGENET)) == 25_549_352
    # With projections; the paper's zero-padded shortcuts would be 2,752 fewer, the 0.27 million of its table.
    assert trainable(without_values(resnet.cifar_resnet, depth=20, **SMALL)) == 272_474


def test_layers_begin_as_documented():
    for version, name in ((1, "resnet50"), (2, "resnet50_v2")):
        model = image_models.build(name, image_size=64, classes=1000, width=32)
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


def test_an_exclusion_leaves_out_every_norm_and_bias_and_nothing_else():
    resnet50 = without_values(image_models.build, name="resnet50", **IMAGENET)
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
