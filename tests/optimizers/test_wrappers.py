"""What Adasum and LocalSteps have in common around any optimizer; loss scales around all."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    ONE_DEVICE,
    assert_same_weights,
    fitted,
    small_data,
    small_model,
    tensor_variables,
    variables,
)
from tfbigbatch import optimizers
from tfbigbatch.optimizers import keras3

WRAPPERS = {
    "Adasum of gradients": ("Adasum", {"combine": "gradients"}),
    "Adasum of updates": ("Adasum", {"combine": "updates"}),
    "LocalSteps": ("LocalSteps", {"every": 2}),
}
each_wrapper = pytest.mark.parametrize("wrapper", WRAPPERS)


def wrapped(wrapper, inner=None, **options):
    name, arguments = WRAPPERS[wrapper]
    inner = keras3.LAMB(learning_rate=0.05) if inner is None else inner
    return getattr(keras3, name)(optimizer=inner, **{**arguments, **options})


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


@pytest.mark.parametrize("around", INFINITIES)
def test_an_infinity_on_one_replica_skips_the_step_of_all(around):
    """Neither replica updates, the scale is halved, and training goes on."""
    strategy, (options, wrapper) = mirrored(2), INFINITIES[around]
    with strategy.scope():
        model = small_model("keras3")
        model.build((None, 4))
        inner = keras3.LAMB(learning_rate=0.1, global_clipnorm=1.0, **options)
        optimizer = wrapped(wrapper, inner) if wrapper else inner
        scaled = keras3.LossScaleOptimizer(optimizer, initial_scale=4.0)
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
        slots = [each for each in tensor_variables(inner) if each.shape.rank] if around == "alone" else []
        copies = [copy.numpy() for slot in slots for copy in strategy.experimental_local_results(slot)]
        return [*model.get_weights(), *copies], float(np.asarray(scaled.dynamic_scale))

    before, scale_before = state()
    step(tf.constant(1))
    after, scale_after = state()
    np.testing.assert_equal(before, after)
    assert scale_after == scale_before / 2
    step(tf.constant(-1))
    moved, scale = state()
    assert scale == scale_after and not np.array_equal(moved[0], after[0]) and np.isfinite(moved[0]).all()


@pytest.mark.parametrize("wrapper, name", [("Adasum of updates", "LARS"), ("LocalSteps", "LAMB")])
def test_one_replica_is_the_optimizer_alone(wrapper, name):
    inner = lambda: getattr(keras3, name)(learning_rate=0.02)
    alone = fitted("keras3", inner, ONE_DEVICE, steps=6)
    assert_same_weights(fitted("keras3", lambda: wrapped(wrapper, inner()), ONE_DEVICE, steps=6), alone, 0, 0)


@each_wrapper
def test_constraints_hold_for_the_combined_update(wrapper):
    """Each replica's own step ends at (0, 2) or (0, 0); together they would end at (-1, 1) or below."""
    strategy = mirrored(2)
    with strategy.scope():
        [weight] = variables("keras3", {"kernel": np.ones(2)}, keras.constraints.NonNeg())
        inner = keras.optimizers.SGD(0.2)
        options = {"every": 1, "outer_learning_rate": 1.5} if wrapper.startswith("Local") else {}
        optimizer = wrapped(wrapper, inner, **options)
        optimizer.build([weight])
    step = step_of(strategy, optimizer, weight, [[10.0, -10.0], [10.0, 10.0]])
    for _ in range(2):
        step()
    found = np.array(weight)
    assert (found >= 0.0).all() and found[0] == 0.0


@pytest.mark.parametrize("wrapper", ["Adasum of updates", "LocalSteps"])
def test_a_checkpoint_without_the_state_of_all_replicas_is_told_and_refused(wrapper, tmp_path):
    strategy = mirrored(2)

    def built():
        with strategy.scope():
            [weight] = variables("keras3", {"kernel": np.ones(2)})
            optimizer = wrapped(wrapper)
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


@pytest.mark.parametrize("wrapper", ["Adasum of updates", "LocalSteps"])
def test_serialisation_and_files_go_round(wrapper, tmp_path):
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    options = {"outer": "nesterov"} if wrapper == "LocalSteps" else {}
    rule = wrapped(wrapper, keras3.LAMB(learning_rate=schedule), group_size=2, **options)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(rule))
    assert again.get_config() == rule.get_config() and type(again) is type(rule)
    model = fitted("keras3", lambda: wrapped(wrapper, **options), steps=3, run_eagerly=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is type(rule)
    for one, other in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    loaded.fit(*small_data(32), verbose=0)


SGD = lambda: keras.optimizers.SGD(0.1)
REFUSED = [
    ("Adasum", SGD, {"combine": "sum"}, "combine='sum' is unknown. Known: gradients, updates"),
    ("Adasum", SGD, {"group_size": 0}, "group_size=0 is out of range"),
    ("Adasum", lambda: keras3.Adasum(SGD()), {}, "combined twice"),
    ("Adasum", lambda: keras.optimizers.Adam(use_ema=True), {}, "use_ema=True"),
    ("Adasum", lambda: keras3.LARS(accumulation_steps=2), {}, "accumulation_steps=2"),
    ("Adasum", lambda: 3, {}, "was given 3"),
    ("LocalSteps", SGD, {"every": 0}, "every=0 is out of range"),
    ("LocalSteps", SGD, {"outer": "sum"}, "outer='sum' is unknown"),
    ("LocalSteps", SGD, {"outer_momentum": 1.0}, "outer_momentum=1.0"),
    ("LocalSteps", SGD, {"every": 4, "data_parallel_steps": 6}, "expected a multiple of every=4"),
    ("LocalSteps", SGD, {"warmup": 6}, "takes no argument 'warmup'|has no argument 'warmup'|unknown"),
    ("LocalSteps", lambda: keras3.Adasum(SGD()), {}, "what the replicas send"),
]


@pytest.mark.parametrize("name, inner, options, message", REFUSED)
def test_what_cannot_be_used_is_refused(name, inner, options, message):
    options = {"every": 2, **options} if name == "LocalSteps" else options
    with pytest.raises(ValueError, match=message):
        getattr(keras3, name)(optimizer=inner(), **options)


@pytest.mark.parametrize("wrapper", ["Adasum of gradients", "LocalSteps"])
def test_groups_must_divide_the_replicas(wrapper):
    strategy = mirrored(3)
    with strategy.scope():
        [weight] = variables("keras3", {"kernel": np.ones(2)})
        optimizer = wrapped(wrapper, group_size=2)
    with pytest.raises(ValueError, match="3 replicas do not divide into groups of group_size=2"):
        with strategy.scope():
            optimizer.build([weight])
        step_of(strategy, optimizer, weight, np.ones((3, 2)))()


def test_any_registered_optimizer_is_wrapped_by_name():
    ours = keras3
    rule = optimizers.get("lamb", keras="keras3", adasum=True)
    assert type(rule) is ours.Adasum and type(rule.inner_optimizer) is ours.LAMB
    assert optimizers.get("momentum", keras="keras3", adasum={"group_size": 4}).group_size == 4
    assert type(optimizers.get("lamb", keras="keras3", adasum=False)) is ours.LAMB
    rule = optimizers.get("muon", keras="keras3", local_steps={"every": 8, "outer": "nesterov"})
    assert type(rule) is ours.LocalSteps and rule.get_config()["outer_momentum"] == 0.9
    for fields, message in (
        ({"adasum": {"groupsize": 4}}, "Did you mean 'group_size'"),
        ({"local_steps": {"evry": 4}}, "Did you mean 'every'"),
        ({"local_steps": True}, "local_steps lacks every: H, steps of a round"),
        ({"local_steps": {"every": -1}}, "local_steps: every=-1 is out of range"),
        ({"local_steps": {"every": 4}, "adasum": True}, "each decides what the replicas exchange"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizers.get("lamb", keras="keras3", **fields)
