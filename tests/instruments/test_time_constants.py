"""State that few steps leave near its first value: named with the value to set, for models of both Kerases."""

import pytest

import tfbigbatch
from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS, make


def model_of(version, *, optimizer=None, **normalisation):
    layers = KERAS[version].layers
    inner = KERAS[version].Sequential([layers.Dense(2), layers.BatchNormalization(name="inner", **normalisation)])
    model = KERAS[version].Sequential(
        [layers.Input((4,)), layers.BatchNormalization(name="outer", momentum=0.8), inner]
    )
    if optimizer is not None:
        model.compile(optimizer, "mse")
    return model


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("version", KERAS_VERSIONS)
def test_batch_normalisation_that_keeps_its_first_statistics_is_named(version):
    with pytest.warns(UserWarning, match=r"\(inner\): momentum=0.99 keeps 62% .* over 48 batches.*Set momentum=0.9\."):
        [found] = tfbigbatch.check(model_of(version), 48)
    assert "outer" not in found
    # Enough steps, a lower momentum or a frozen layer.
    assert not tfbigbatch.check(model_of(version), 300)
    assert not tfbigbatch.check(model_of(version, momentum=0.9), 48)
    assert not tfbigbatch.check(model_of(version, trainable=False), 48)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", KERAS_VERSIONS)
def test_averages_of_weights_and_a_loss_scale_that_never_grows_are_named(version):
    keras = KERAS[version]
    averaged = make(version, "LAMB", learning_rate=0.1, use_ema=True, accumulation_steps=2)
    [found] = tfbigbatch.check(model_of(version, momentum=0.5, optimizer=averaged), 60)
    # 60 batches are 30 steps of an optimizer that accumulates two.
    assert found.startswith("use_ema: ema_momentum=0.99 keeps 74%") and found.endswith("Set ema_momentum=0.8.")
    holder = keras.mixed_precision if version == "tf_keras" else keras.optimizers
    scaled = holder.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    [found] = tfbigbatch.check(model_of(version, momentum=0.5, optimizer=scaled), 100)
    assert "dynamic_growth_steps=2000 is more than the run's 100 steps" in found and "dynamic_growth_steps=5" in found
