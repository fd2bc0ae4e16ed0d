"""What Adasum and LocalSteps have in common around any optimizer of either Kerases; loss scales around all."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    KERAS,
    ONE_DEVICE,
    OPTIMIZERS,
    assert_same_weights,
    both_versions,
    fitted,
    make,
    small_data,
    small_model,
    tensor_variables,
    variables,
)
from tfbigbatch import optimizers

WRAPPERS = {
    "Adasum of gradients": ("Adasum", {"combine": "gradients"}),
    "Adasum of updates": ("Adasum", {"combine": "updates"}),
    "LocalSteps": ("LocalSteps", {"every": 2}),
    "LocalSteps, delayed": ("LocalSteps", {"every": 2, "delay": 1, "outer": "nesterov"}),
}
each_wrapper = pytest.mark.parametrize("wrapper", WRAPPERS)


def wrapped(keras_version, wrapper, inner=None, **options):
    name, arguments = WRAPPERS[wrapper]
    inner = make(keras_version, "LAMB", learning_rate=0.05) if inner is None else inner
    return make(keras_version, name, optimizer=inner, **{**arguments, **options})


def step_of(strategy, optimizer, weight, gradients):
    """A function that takes a step, with a row of the gradients on each replica."""

    def replica():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        optimizer.apply_gradients([(tf.constant(gradients, tf.float32)[index], weight)])

    return tf.function(lambda: strategy.run(replica))


INFINITIES = {
    "alone": ({}, None),
    "sharded": ({"shard_updates": True}, None),
    **{name: ({}, name) for name in WRAPPERS},
}


@both_versions
@pytest.mark.parametrize("around", INFINITIES)
def test_an_infinity_on_one_replica_skips_the_step_of_all(keras_version, around):
    """Neither replica updates, the scale is halved, and training goes on."""
    keras, strategy, (options, wrapper) = KERAS[keras_version], mirrored(2), INFINITIES[around]
    with strategy.scope():
        model = small_model(keras_version)
        model.build((None, 4))
        inner = make(keras_version, "LAMB", learning_rate=0.1, global_clipnorm=1.0, **options)
        optimizer = wrapped(keras_version, wrapper, inner) if wrapper else inner
        home = keras.mixed_precision if keras_version == "tf_keras" else OPTIMIZERS[keras_version]
        scaled = home.LossScaleOptimizer(optimizer, initial_scale=4.0)
        scaled.build(model.trainable_variables)

    @tf.function
    def step(bad_replica):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            # Updates that are sharded are of gradients that all replicas have.
            infinite = index == bad_replica if around != "sharded" else bad_replica >= 0
            value = tf.where(infinite, np.inf, 1.0)
            variables = model.trainable_variables
            scaled.apply_gradients([(tf.fill(variable.shape, value), variable) for variable in variables])

        strategy.run(replica)

    def state():
        scale = scaled.loss_scale if keras_version == "tf_keras" else scaled.dynamic_scale
        slots = [each for each in tensor_variables(inner) if each.shape.rank] if around == "alone" else []
        copies = [copy.numpy() for slot in slots for copy in strategy.experimental_local_results(slot)]
        return [*model.get_weights(), *copies], float(np.asarray(scale))

    before, scale_before = state()
    step(tf.constant(1))
    after, scale_after = state()
    np.testing.assert_equal(before, after)
    assert scale_after == scale_before / 2
    step(tf.constant(-1))
    moved, scale = state()
    assert scale == scale_after and not np.array_equal(moved[0], after[0]) and np.isfinite(moved[0]).all()


@both_versions
@pytest.mark.parametrize("wrapper, name", [("Adasum of updates", "LARS"), ("LocalSteps", "LAMB")])
def test_one_replica_is_the_optimizer_alone(keras_version, wrapper, name):
    inner = lambda: make(keras_version, name, learning_rate=0.02)
    alone = fitted(keras_version, inner, ONE_DEVICE, steps=6)
    assert_same_weights(
        fitted(keras_version, lambda: wrapped(keras_version, wrapper, inner()), ONE_DEVICE, steps=6), alone, 0, 0
    )


@both_versions
@each_wrapper
def test_constraints_hold_for_the_combined_update(keras_version, wrapper):
    """Each replica's own step ends at (0, 2) or (0, 0); together they would end at (-1, 1) or below."""
    strategy = mirrored(2)
    with strategy.scope():
        [weight] = variables(keras_version, {"kernel": np.ones(2)}, KERAS[keras_version].constraints.NonNeg())
        inner = KERAS[keras_version].optimizers.SGD(0.2)
        options = {"every": 1, "outer_learning_rate": 1.5} if wrapper.startswith("Local") else {}
        optimizer = wrapped(keras_version, wrapper, inner, **options)
        optimizer.build([weight])
    step = step_of(strategy, optimizer, weight, [[10.0, -10.0], [10.0, 10.0]])
    for _ in range(2):
        step()
    found = np.array(weight)
    assert (found >= 0.0).all() and found[0] == 0.0


@both_versions
@pytest.mark.parametrize("wrapper", ["Adasum of updates", "LocalSteps"])
def test_a_checkpoint_without_the_state_of_all_replicas_is_told_and_refused(keras_version, wrapper, tmp_path):
    strategy = mirrored(2)

    def built():
        with strategy.scope():
            [weight] = variables(keras_version, {"kernel": np.ones(2)})
            optimizer = wrapped(keras_version, wrapper)
            optimizer.build([weight])
        return weight, optimizer

    weight, optimizer = built()
    step_of(strategy, optimizer, weight, np.ones((2, 2)))()
    with pytest.warns(UserWarning, match="each replica has state of its own, and this file holds that of the first"):
        path = tf.train.Checkpoint(optimizer=optimizer).save(str(tmp_path / "checkpoint"))
    with pytest.raises(ValueError, match="is not in the checkpoint.*ExactResume.*checkpointing()"):
        tf.train.Checkpoint(optimizer=built()[1]).restore(path)
    with pytest.warns(UserWarning, match="holds that of the first"):
        optimizer.save_own_variables({})


@both_versions
@pytest.mark.parametrize("wrapper", ["Adasum of updates", "LocalSteps, delayed"])
def test_serialisation_and_files_go_round(keras_version, wrapper, tmp_path):
    keras = KERAS[keras_version]
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    rule = wrapped(keras_version, wrapper, make(keras_version, "LAMB", learning_rate=schedule), group_size=2)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(rule))
    assert again.get_config() == rule.get_config() and type(again) is type(rule)
    model = fitted(keras_version, lambda: wrapped(keras_version, wrapper), steps=3, run_eagerly=True)
    # Keras 3 restores no optimizer from a .h5 file.
    for suffix in ["keras"] + ["h5"] * (keras_version == "tf_keras"):
        model.save(str(tmp_path / f"model.{suffix}"))
        loaded = keras.models.load_model(str(tmp_path / f"model.{suffix}"))
        assert type(loaded.optimizer) is type(rule)
        for one, other in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        loaded.fit(*small_data(32), verbose=0)


SGD = lambda version: KERAS[version].optimizers.SGD(0.1)
REFUSED = [
    ("Adasum", SGD, {"combine": "sum"}, "combine='sum' is unknown. Known: gradients, updates"),
    ("Adasum", SGD, {"group_size": 0}, "group_size=0 is out of range"),
    ("Adasum", lambda version: make(version, "Adasum", optimizer=SGD(version)), {}, "combined twice"),
    ("Adasum", lambda version: KERAS[version].optimizers.Adam(use_ema=True), {}, "use_ema=True"),
    ("Adasum", lambda version: make(version, "LARS", accumulation_steps=2), {}, "accumulation_steps=2"),
    ("Adasum", lambda version: 3, {}, "was given 3"),
    ("LocalSteps", SGD, {"every": 0}, "every=0 is out of range"),
    ("LocalSteps", SGD, {"outer": "sum"}, "outer='sum' is unknown"),
    ("LocalSteps", SGD, {"outer_momentum": 1.0}, "outer_momentum=1.0"),
    ("LocalSteps", SGD, {"delay": 2}, "delay=2 is out of range"),
    ("LocalSteps", SGD, {"every": 4, "data_parallel_steps": 6}, "expected a multiple of every=4"),
    ("LocalSteps", SGD, {"warmup": 6}, "takes no argument 'warmup'|has no argument 'warmup'|unknown"),
    ("LocalSteps", lambda version: make(version, "Adasum", optimizer=SGD(version)), {}, "what the replicas send"),
]


@both_versions
@pytest.mark.parametrize("name, inner, options, message", REFUSED)
def test_what_cannot_be_used_is_refused(keras_version, name, inner, options, message):
    options = {"every": 2, **options} if name == "LocalSteps" else options
    with pytest.raises(ValueError, match=message):
        make(keras_version, name, optimizer=inner(keras_version), **options)


@both_versions
@pytest.mark.parametrize("wrapper", ["Adasum of gradients", "LocalSteps"])
def test_groups_must_divide_the_replicas(keras_version, wrapper):
    strategy = mirrored(3)
    with strategy.scope():
        [weight] = variables(keras_version, {"kernel": np.ones(2)})
        optimizer = wrapped(keras_version, wrapper, group_size=2)
    with pytest.raises(ValueError, match="3 replicas do not divide into groups of group_size=2"):
        with strategy.scope():
            optimizer.build([weight])
        step_of(strategy, optimizer, weight, np.ones((3, 2)))()


@both_versions
def test_any_registered_optimizer_is_wrapped_by_name(keras_version):
    ours = OPTIMIZERS[keras_version]
    rule = optimizers.get("lamb", keras=keras_version, adasum=True)
    assert type(rule) is ours.Adasum and type(rule.inner_optimizer) is ours.LAMB
    assert optimizers.get("momentum", keras=keras_version, adasum={"group_size": 4}).group_size == 4
    assert type(optimizers.get("lamb", keras=keras_version, adasum=False)) is ours.LAMB
    rule = optimizers.get("muon", keras=keras_version, local_steps={"every": 8, "outer": "nesterov"})
    assert type(rule) is ours.LocalSteps and rule.get_config()["outer_momentum"] == 0.9
    for fields, message in (
        ({"adasum": {"groupsize": 4}}, "Did you mean 'group_size'"),
        ({"local_steps": {"evry": 4}}, "Did you mean 'every'"),
        ({"local_steps": True}, "local_steps lacks every: H, steps of a round"),
        ({"local_steps": {"every": -1}}, "local_steps: every=-1 is out of range"),
        ({"local_steps": {"every": 4}, "adasum": True}, "each decides what the replicas exchange"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizers.get("lamb", keras=keras_version, **fields)
