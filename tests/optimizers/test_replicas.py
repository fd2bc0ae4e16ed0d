"""What must not depend on the number of replicas: clipping, loss scaling, XLA for each layer, averages."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    OPTIMIZERS,
    assert_same_weights,
    fitted,
    make,
    small_model,
    tensor_variables,
)

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
ONE_DEVICE = tf.distribute.OneDeviceStrategy("CPU:0")


@both_versions
@pytest.mark.parametrize(
    "name, options",
    [
        ("LARS", {"clipnorm": 0.05}),
        ("LAMB", {"clipvalue": 0.01}),
        ("LAMB", {"pre_normalize": True}),
        pytest.param("LAMB", {"jit_compile": True}, marks=pytest.mark.slow),
        ("LAMB", {"use_ema": True, "ema_overwrite_frequency": 3}),
    ],
)
def test_two_replicas_end_where_one_does(keras_version, name, options):
    def optimizer():
        return make(keras_version, name, learning_rate=0.02, weight_decay=0.01, **options)

    one, two = (fitted(keras_version, optimizer, strategy, steps=8) for strategy in (ONE_DEVICE, mirrored(2)))
    assert_same_weights(two, one)


@both_versions
def test_replicas_agree_to_skip_a_step_of_float16(keras_version):
    """One replica alone meets an infinity: neither updates, both halve the scale, and training goes on."""
    keras, strategy = KERAS[keras_version], mirrored(2)
    with strategy.scope():
        model = small_model(keras_version)
        model.build((None, 4))
        inner = make(keras_version, "LAMB", learning_rate=0.1, global_clipnorm=1.0)
        scaled = (
            keras.mixed_precision if keras_version == "tf_keras" else OPTIMIZERS[keras_version]
        ).LossScaleOptimizer(inner, initial_scale=4.0)
        scaled.build(model.trainable_variables)

    @tf.function
    def step(bad_replica):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            value = tf.where(index == bad_replica, np.inf, 1.0)
            variables = model.trainable_variables
            scaled.apply_gradients([(tf.fill(variable.shape, value), variable) for variable in variables])

        strategy.run(replica)

    def state():
        scale = scaled.loss_scale if keras_version == "tf_keras" else scaled.dynamic_scale
        slots = [variable for variable in tensor_variables(inner) if variable.shape.rank]
        copies = [[copy.numpy() for copy in strategy.experimental_local_results(slot)] for slot in slots]
        for first, second in copies:
            np.testing.assert_array_equal(first, second)
        return model.get_weights(), [first for first, _ in copies], float(np.asarray(scale))

    before, slots_before, scale_before = state()
    step(tf.constant(1))
    after, slots_after, scale_after = state()
    for one, other in zip([*before, *slots_before], [*after, *slots_after]):
        np.testing.assert_array_equal(one, other)
    assert scale_after == scale_before / 2
    step(tf.constant(-1))
    moved, _, scale = state()
    assert scale == scale_after and not np.array_equal(moved[0], after[0]) and np.isfinite(moved[0]).all()
