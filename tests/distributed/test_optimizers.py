"""Both versions' optimizers in real processes on loopback: the end does not depend on the number of workers."""

import functools
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.worker import run_together
from tests.helpers.keras_versions import KERAS, KERAS_VERSIONS, make
from tfbigbatch.optimizers import sharing

UPDATES, BATCH = 20, 32
VOCABULARY, TOKENS = 12, 4

LARS = {"name": "LARS", "eeta": 0.02, "rates": (2.0, 0.2)}
LAMB = {"name": "LAMB", "rates": (0.05, 0.005)}
# Two matrices: each of two workers orthogonalises one.
MUON = {"name": "Muon", "rates": (0.02, 0.002), "treatments": {"embedding|kernel": "matrix"}}
# Of the same name before the dot: the same updates, and the same end.
CASES = {
    "lars": LARS,
    "lars.two_micro_batches_by_xla": {**LARS, "accumulation_steps": 2, "jit_compile": True},
    "lamb": LAMB,
    "muon": MUON,
    "lars.sharded": {**LARS, "accumulation_steps": 2, "shard_updates": True},
    "lamb.sharded": {**LAMB, "shard_updates": True},
    "muon.sharded": {**MUON, "shard_updates": True},
}


def optimizer(keras_version, *, name, rates, **options):
    first, last = rates
    schedule = KERAS[keras_version].optimizers.schedules.PolynomialDecay(first, UPDATES, last)
    options = {"global_clipnorm": 0.02, "jit_compile": False, **options}
    return make(
        keras_version,
        name,
        learning_rate=schedule,
        weight_decay=0.01,
        exclude_from_weight_decay="norm_and_bias",
        **options,
    )


def small_model(keras_version):
    """An embedding, whose gradient is sparse, a normalisation and a bias, which are excluded, and a dense kernel."""
    KERAS[keras_version].utils.set_random_seed(0)
    layers = KERAS[keras_version].layers
    return KERAS[keras_version].Sequential(
        [layers.Input((TOKENS,), dtype="int32"), layers.Embedding(VOCABULARY, 6), layers.Flatten()]
        + [layers.LayerNormalization(), layers.Dense(1, activation="tanh")]
    )


def batches(size):
    """The same batches whatever the number of workers; a token comes several times in each, and on several workers."""
    random = np.random.RandomState(0)
    x = random.randint(VOCABULARY, size=(UPDATES * BATCH, TOKENS)).astype("int32")
    y = np.sin(x).mean(axis=1, keepdims=True).astype("float32")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size, drop_remainder=True).with_options(options)


def trained(keras_version, strategy, **case):
    """(model, its optimizer) after UPDATES updates: by `fit` in tf_keras, by a loop in Keras 3."""
    size = BATCH // case.get("accumulation_steps", 1)
    with strategy.scope():
        model, rule = small_model(keras_version), optimizer(keras_version, **case)
        if keras_version == "tf_keras":
            model.compile(optimizer=rule, loss="mse")
    if keras_version == "tf_keras":
        model.fit(batches(size), verbose=0)
    else:
        loop(strategy, model, rule, size)
    return model, rule


def loop(strategy, model, rule, size):
    """A custom loop: Keras 3's own `fit` fails under MultiWorkerMirroredStrategy (keras-team/keras#20585)."""

    @tf.function
    def step(batch):
        def replica(x, y):
            with tf.GradientTape() as tape:
                # The share of this replica in the mean over the whole batch: gradients are summed.
                loss = tf.reduce_sum(tf.square(model(x, training=True) - y)) / size
            variables = model.trainable_variables
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            rule.apply_gradients(zip(gradients, variables))

        strategy.run(replica, args=batch)

    for batch in strategy.experimental_distribute_dataset(batches(size)):
        step(batch)


def in_a_worker(strategy, directory, *cases):
    """Arrays by name after the cases: "keras_version/case/weights/0" and so on."""
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    for name in cases:
        keras_version, case = name.split("/")
        # Sharing work on matrices as small as these would not pay.
        with mock.patch.multiple(sharing, _OPERATIONS_PER_BYTE=0.0, _LEAST_OPERATIONS=0.0):
            model, rule = trained(keras_version, strategy, **CASES[case])
        # Of sharded updates, each worker has its own part of the state.
        state = [np.asarray(variable) for variable in rule.variables if not CASES[case].get("shard_updates")]
        for kind, values in (("weights", model.get_weights()), ("state", state)):
            arrays.update({f"{name}/{kind}/{i}": value for i, value in enumerate(values)})
        arrays[f"{name}/iterations"] = np.asarray(rule.iterations)
    return arrays


ALL = [f"{keras_version}/{case}" for keras_version in KERAS_VERSIONS for case in CASES]
# Each rule once, and both versions.
HALF = ["tf_keras/lars", "tf_keras/lamb.sharded", "keras3/lars.two_micro_batches_by_xla", "keras3/muon"]


@pytest.fixture(
    scope="module",
    params=[(2, HALF), pytest.param((2, ALL), marks=pytest.mark.slow), pytest.param((4, ALL), marks=pytest.mark.slow)],
    ids=["2-half", "2", "4"],
)
def workers_ends(request, tmp_path_factory):
    """What each worker of a cluster ended with: a list of dictionaries of arrays."""
    workers, cases = request.param
    ends = run_together(workers, tmp_path_factory.mktemp("cluster"), in_a_worker, *cases)
    assert sorted({"/".join(name.split("/")[:2]) for name in ends[0] if "/" in name}) == sorted(cases)
    return ends


@functools.cache
def alone(keras_version, rule, **options):
    """The weights after the same updates in this process, on one device."""
    return trained(keras_version, tf.distribute.get_strategy(), **{**CASES[rule], **options})[0].get_weights()


def test_all_workers_end_in_the_same_bits(workers_ends):
    first, *others = workers_ends
    assert first["replicas"] == len(workers_ends)
    for other in others:
        np.testing.assert_equal(other, first)


def test_several_workers_end_where_one_process_does(workers_ends):
    """Micro-batches and XLA end where the same rule ends without them, on the whole batch."""
    ends = workers_ends[0]
    for name in (name.removesuffix("/iterations") for name in ends if name.endswith("/iterations")):
        assert ends[f"{name}/iterations"] == UPDATES
        keras_version, case = name.split("/")
        for i, weight in enumerate(alone(keras_version, case.partition(".")[0])):
            np.testing.assert_allclose(ends[f"{name}/weights/{i}"], weight, rtol=1e-4, atol=1e-6, err_msg=f"{name} {i}")
