"""Sharded updates: each replica has the state of its layers and updates these, and all end with the same weights."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    KERAS,
    KERAS_VERSIONS,
    OPTIMIZERS,
    assert_same_weights,
    make,
    small_model,
    tensor_variables,
    variables,
)
from tests.helpers.replica_steps import SHAMPOO, stepped
from tfbigbatch.optimizers import assignment
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy

both_versions = pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
# The code is the same for both; the second in the slow run.
either_version = pytest.mark.parametrize("keras_version", ["tf_keras", pytest.param("keras3", marks=pytest.mark.slow)])
ONE_DEVICE = tf.distribute.OneDeviceStrategy("CPU:0")


def tensors(weights):
    """The tf.Variables within variables of either Keras."""
    return [each if isinstance(each, tf.Variable) else each.value for each in weights]


def assert_same_steps(keras_version, replicas, rtol=0.0, atol=0.0, **options):
    """That all replicas end where those end that update all layers."""
    whole, sharded = (
        stepped(mirrored(replicas), keras_version, shard_updates=shard, **options) for shard in (False, True)
    )
    for expected, copies in zip(whole, sharded, strict=True):
        for copy in copies:
            np.testing.assert_array_equal(copy, copies[0])
            np.testing.assert_allclose(copy, expected[0], rtol=rtol, atol=atol)


# ---- Which replica has what -------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 100.0), max_size=30), st.integers(1, 12))
def test_the_shares_are_balanced(costs, replicas):
    owners = assignment.deal(costs, replicas)
    assert len(owners) == len(costs) and set(owners) <= set(range(replicas))
    loads = [sum(cost for cost, owner in zip(costs, owners) if owner == each) for each in range(replicas)]
    # At most one layer more than any other.
    assert max(loads) - min(loads) <= max(costs, default=0.0) + 1e-6


@both_versions
def test_each_replica_has_the_state_of_its_layers(keras_version):
    """Moments and accumulators; together they are what each replica has without sharding."""
    sizes = {f"layer_{index}": (8 + index, 8) for index in range(12)}

    def bytes_by_device(shard):
        with (strategy := mirrored(4)).scope():
            weights = variables(keras_version, {name: np.ones(shape) for name, shape in sizes.items()})
            lamb = make(keras_version, "LAMB", accumulation_steps=2, shard_updates=shard)
            lamb.build(weights)
        found = {}
        for variable in tensor_variables(lamb):
            for copy in strategy.experimental_local_results(variable):
                if copy.shape.rank:
                    found[copy.device] = found.get(copy.device, 0) + copy.shape.num_elements() * 4
        return list(found.values())

    [whole, *_], parts = bytes_by_device(False), bytes_by_device(True)
    assert len(parts) == 4 and sum(parts) == whole and max(parts) < 1.1 * whole / 4


# ---- The same weights -------------------------------------------------------------------------------------------


@both_versions
@pytest.mark.parametrize(
    "options",
    [
        {"name": "LAMB", "weight_decay": 0.01, "exclude_from_weight_decay": ["bias"]},
        {"name": "LARS", "nesterov": True, "accumulation_steps": 2},
        {"name": "Muon", "use_ema": True, "ema_overwrite_frequency": 2},
        pytest.param({"name": "LAMB", "jit_compile": True}, marks=pytest.mark.slow),
        pytest.param({"name": "LAMB", "pre_normalize": True}, marks=pytest.mark.slow),
        pytest.param({"name": "LARS", "clipnorm": 0.1, "global_clipnorm": None}, marks=pytest.mark.slow),
        pytest.param({"name": "Muon", "normuon_beta": 0.9, "vectors": "lamb"}, marks=pytest.mark.slow),
    ],
    ids=lambda options: "-".join(map(str, options.values()))[:30],
)
@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_all_replicas_end_with_the_bits_of_unsharded_updates(keras_version, options, replicas):
    assert_same_steps(keras_version, replicas, **options)


@pytest.mark.slow
@both_versions
@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_shampoo_ends_there_but_for_rounding(keras_version, replicas):
    assert_same_steps(keras_version, replicas, rtol=1e-5, atol=1e-6, **SHAMPOO)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(KERAS_VERSIONS),
    st.sampled_from(["LARS", "LAMB", "Muon"]),
    st.sampled_from([1, 2, 3, 4]),
    st.lists(st.lists(st.integers(1, 5), max_size=3).map(tuple), min_size=1, max_size=5),
)
def test_any_mix_of_layers_on_any_number_of_replicas(keras_version, name, replicas, shapes):
    random = np.random.RandomState(0)
    values = {f"layer_{index}": random.normal(size=shape) for index, shape in enumerate(shapes)}
    gradients = [tf.constant(random.normal(size=shape), tf.float32) for shape in shapes]
    strategy = mirrored(replicas)

    def ends(**options):
        with strategy.scope():
            weights = variables(keras_version, values)
            optimizer = make(keras_version, name, learning_rate=0.05, global_clipnorm=1.0, **options)
            optimizer.build(weights)
            weights = tensors(weights)
            # The gradients as they are after the sum over the replicas.
            for _ in range(2):
                optimizer.updater.apply(strategy, gradients, weights)
        return [[copy.numpy() for copy in strategy.experimental_local_results(each)] for each in weights]

    for expected, copies in zip(ends(), ends(shard_updates=True), strict=True):
        for copy in copies:
            np.testing.assert_array_equal(copy, expected[0])


def stepped_model(keras_version, strategy, **options):
    """A small compiled model after a step on gradients of ones."""
    with strategy.scope():
        model = small_model(keras_version)
        model.compile(make(keras_version, "LAMB", learning_rate=0.02, **options), "mse")
        model.optimizer.build(model.trainable_variables)
        weights = tensors(model.trainable_variables)
        model.optimizer.updater.apply(strategy, [tf.ones(each.shape) for each in weights], weights)
    return model


# ---- Checkpoints and files --------------------------------------------------------------------------------------


@pytest.mark.slow
@either_version
def test_checkpoints_move_between_numbers_of_replicas(keras_version, tmp_path):
    """2 sharded, 4 sharded, unsharded: a step each, and the weights of three steps on one device."""

    def trained(strategy, shard, number):
        with strategy.scope():
            model = small_model(keras_version)
            model.build((None, 4))
            lamb = make(keras_version, "LAMB", learning_rate=0.05, accumulation_steps=2, shard_updates=shard)
            lamb.build(model.trainable_variables)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=lamb)
        if number:
            checkpoint.read(str(tmp_path / f"{number - 1}")).assert_existing_objects_matched()
        gradients = [tf.fill(variable.shape, 0.1 + number) for variable in model.trainable_variables]
        # One step and a micro-batch more: the accumulators are carried too.
        for _ in range(3):
            strategy.run(
                lambda: lamb.apply_gradients(
                    [(gradient / strategy.num_replicas_in_sync, variable) for gradient, variable in
                     zip(gradients, model.trainable_variables)]
                )
            )  # fmt: skip
        checkpoint.write(str(tmp_path / f"{number}"))
        return model

    chain = [(mirrored(2), True), (mirrored(4), True), (ONE_DEVICE, False), (mirrored(2), True)]
    sharded = [trained(*each, number) for number, each in enumerate(chain)][-1]
    whole = [trained(ONE_DEVICE, False, number) for number in range(4)][-1]
    assert_same_weights(sharded, whole, rtol=1e-5)


@both_versions
def test_a_keras_file_holds_the_state_of_all_replicas(keras_version, tmp_path):
    model = stepped_model(keras_version, mirrored(2), shard_updates=True)
    model.save(tmp_path / "model.keras")
    loaded = KERAS[keras_version].models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config()["shard_updates"] is True
    for one, other in zip(tensor_variables(loaded.optimizer), tensor_variables(model.optimizer), strict=True):
        np.testing.assert_array_equal(one, other)


# ---- Refused ----------------------------------------------------------------------------------------------------


def built(keras_version, strategy, **options):
    with strategy.scope():
        weights = variables(keras_version, {"kernel": np.ones((4, 4)), "bias": np.ones(4)})
        lamb = make(keras_version, "LAMB", shard_updates=True, **options)
        lamb.build(weights)
    return lamb, tensors(weights)


@both_versions
def test_a_strategy_that_cannot_is_refused_with_what_to_do(keras_version):
    with pytest.raises(ValueError, match="compiler for TPUs shards updates by itself.*Leave shard_updates out"):
        built(keras_version, AheadOfTimeStrategy(8))
    lamb, weights = built(keras_version, mirrored(2))
    with pytest.raises(ValueError, match="built for 2 replicas, and is used with 1"):
        lamb.updater.apply(
            ONE_DEVICE, [tf.ones((4, 4)), tf.ones(4)], [getattr(each, "value", each) for each in weights]
        )
    with pytest.raises(ValueError, match="apply_gradients with all"):
        lamb.updater.apply_to_variable(tf.ones(4), lamb.updater and weights[1])


@both_versions
def test_replicas_with_steps_of_their_own_are_refused(keras_version):
    strategy = mirrored(2)
    with strategy.scope():
        weights = variables(keras_version, {"kernel": np.ones((4, 4))})
        lamb = make(keras_version, "LAMB", shard_updates=True)
        adasum = OPTIMIZERS[keras_version].Adasum(lamb, combine="updates")
    with pytest.raises(ValueError, match="steps of their own"):
        adasum.build(weights)


@either_version
def test_on_one_replica_nothing_changes(keras_version):
    one, whole = (stepped_model(keras_version, ONE_DEVICE, shard_updates=shard) for shard in (True, False))
    assert_same_weights(one, whole, rtol=0, atol=0)
    assert list(one.optimizer.named_state.layout.shapes) == list(whole.optimizer.named_state.layout.shapes)
