"""Shared matrices and sharded updates: each replica has its part of the work, and all end with the same weights."""

import functools
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import (
    fitted,
    tensor_variables,
    variables,
)
from tfbigbatch.optimizers import keras3, sharing
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy

# ResNet-50's last stage and classifier, and small ones.
SHAPES = [(3, 4608, 512), (2, 2048, 512), (1, 2048, 1000), (3, 576, 64), (4, 64, 256)]


def test_only_matrices_that_take_longer_than_their_bytes_are_shared():
    def flops(rows, columns):
        """Of five Newton-Schulz steps on the smaller Gram matrix."""
        return 20.0 * rows * columns * min(rows, columns)

    chosen = functools.partial(sharing.worthwhile, [tf.TensorSpec(shape) for shape in SHAPES], flops, 8)
    assert chosen(is_free=False) == [0, 1, 2]
    # Within one CPU nothing moves.
    assert chosen(is_free=True) == [0, 1, 2, 3, 4]
    # One matrix of some milliseconds is not worth a collective.
    assert sharing.worthwhile([tf.TensorSpec([1, 256, 256])], flops, 8, is_free=False) == []


def test_each_replica_has_the_state_of_its_layers():
    """Moments and accumulators; together they are what each replica has without sharding."""
    sizes = {f"layer_{index}": (8 + index, 8) for index in range(12)}

    def bytes_by_device(shard):
        with (strategy := mirrored(4)).scope():
            weights = variables("keras3", {name: np.ones(shape) for name, shape in sizes.items()})
            lamb = keras3.LAMB(accumulation_steps=2, shard_updates=shard)
            lamb.build(weights)
        found = {}
        for variable in tensor_variables(lamb):
            for copy in strategy.experimental_local_results(variable):
                if copy.shape.rank:
                    found[copy.device] = found.get(copy.device, 0) + copy.shape.num_elements() * 4
        return list(found.values())

    [whole, *_], parts = bytes_by_device(False), bytes_by_device(True)
    assert len(parts) == 4 and sum(parts) == whole and max(parts) < 1.1 * whole / 4


WEIGHTS = {"hidden": (6, 8), "conv": (3, 3, 2, 4), "head": (8, 3), "bias": (3,)}
STEPS = 3


# Steps of the graft, with new roots and with those of the step before.
SHAMPOO = {
    "name": "Shampoo",
    "graft": {"method": "lamb", "steps": 1},
    "root": {"every": 2, "epsilon": 1e-2},
    "block_size": 4,
}


def stepped(strategy, name="Muon", **options):
    """The variables on every replica of this process, after a few steps on gradients that differ by replica."""
    random = np.random.RandomState(1)
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        weights = variables("keras3", {name: random.normal(size=shape) for name, shape in WEIGHTS.items()})
        rule = getattr(keras3, name)(learning_rate=0.05, **{"global_clipnorm": 1.0, **options})
        rule.build(weights)
    gradients = [random.normal(size=(STEPS, *shape)).astype("float32") for shape in WEIGHTS.values()]

    @tf.function
    def step(number):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            # They add up to the gradient, and differ between the replicas.
            part = (1.0 + tf.cast(index, tf.float32) - (replicas - 1) / 2) / replicas
            rule.apply_gradients(
                [(part * tf.constant(each)[number], weight) for each, weight in zip(gradients, weights)]
            )

        strategy.run(replica)

    for number in range(STEPS):
        step(tf.constant(number))
    tensors = [getattr(each, "value", each) if not isinstance(each, tf.Variable) else each for each in weights]
    return [[copy.numpy() for copy in strategy.experimental_local_results(each)] for each in tensors]


# By the argument: sharded updates have the bits of unsharded ones, shared matrices are rounded otherwise.
ROUNDING = {"rtol": 1e-4, "atol": 1e-6}
CASES = [
    ("shard_updates", {"name": "LAMB", "weight_decay": 0.01, "exclude_from_weight_decay": ["bias"]}, {"rtol": 0.0}),
    ("shard_updates", {"name": "LARS", "nesterov": True, "accumulation_steps": 2}, {"rtol": 0.0}),
    ("shard_updates", {"name": "Muon", "use_ema": True, "ema_overwrite_frequency": 2}, {"rtol": 0.0}),
    ("shared work", {"name": "Muon"}, ROUNDING),
]
SLOW = [
    ("shard_updates", {"name": "LAMB", "jit_compile": True}, {"rtol": 0.0}),
    ("shard_updates", {"name": "LAMB", "pre_normalize": True}, {"rtol": 0.0}),
    ("shard_updates", {"name": "LARS", "clipnorm": 0.1, "global_clipnorm": None}, {"rtol": 0.0}),
    ("shard_updates", {"name": "Muon", "normuon_beta": 0.9, "vectors": "lamb"}, {"rtol": 0.0}),
    ("shard_updates", SHAMPOO, ROUNDING),
    ("shared work", SHAMPOO, ROUNDING),
]


@pytest.mark.parametrize(
    "argument, options, tolerance", [*CASES, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)]
)
@pytest.mark.parametrize("replicas", [1, 2, *(pytest.param(each, marks=pytest.mark.slow) for each in (3, 4))])
def test_all_replicas_end_in_the_same_bits_and_where_each_does_all(argument, options, tolerance, replicas):
    strategy = mirrored(replicas)
    if argument == "shared work":
        parts = stepped(strategy, **options)
        with mock.patch.object(sharing, "worthwhile", return_value=[]):
            whole = stepped(strategy, **options)
    else:
        whole, parts = (stepped(strategy, **{argument: value}, **options) for value in (False, True))
    for expected, copies in zip(whole, parts, strict=True):
        for copy in copies:
            np.testing.assert_array_equal(copy, copies[0])
            np.testing.assert_allclose(copy, expected[0], **tolerance)


def test_a_keras_file_holds_the_state_of_all_replicas(tmp_path):
    model = fitted("keras3", lambda: keras3.LAMB(shard_updates=True), mirrored(2), steps=2)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config()["shard_updates"] is True
    for one, other in zip(tensor_variables(loaded.optimizer), tensor_variables(model.optimizer), strict=True):
        np.testing.assert_array_equal(one, other)


def test_where_updates_cannot_be_sharded_it_is_refused_with_what_to_do():
    def built(strategy, wrap=lambda optimizer: optimizer):
        with strategy.scope():
            weights = variables("keras3", {"kernel": np.ones((4, 4))})
            wrap(keras3.LAMB(shard_updates=True)).build(weights)

    with pytest.raises(ValueError, match="compiler for TPUs shards updates by itself.*Leave shard_updates out"):
        built(AheadOfTimeStrategy(8))
    with pytest.raises(ValueError, match="steps of their own"):
        built(mirrored(2), lambda lamb: keras3.Adasum(lamb, combine="updates"))
