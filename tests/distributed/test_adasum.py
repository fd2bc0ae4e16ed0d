"""Adasum over real processes, and over more logical CPUs than this process has."""

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.worker import run_together
from tests.helpers.keras_versions import KERAS, make, variables
from tests.helpers.optimizers_in_numpy import tree

pytestmark = pytest.mark.slow
SHAPES = {"a": (3, 5), "b": (7,), "c": (1,), "d": (2, 2, 2), "e": ()}
STEPS = 100
# Name of a case: what is wrapped, and how. The versions take turns; tests/optimizers has all of both on one machine.
CASES = {
    "gradients": {"keras_version": "tf_keras", "optimizer": "SGD", "learning_rate": 1.0, "combine": "gradients"},
    "updates": {"keras_version": "keras3", "optimizer": "SGD", "learning_rate": 1.0, "combine": "updates"},
}
CASES["groups"] = {**CASES["gradients"], "keras_version": "keras3", "group_size": 2}
CASES["groups_of_updates"] = {**CASES["updates"], "keras_version": "tf_keras", "group_size": 2}
LONG = {"keras_version": "tf_keras", "optimizer": "LAMB", "learning_rate": 0.01, "global_clipnorm": 1.0}


def gradients(replicas, seed=0):
    """Dictionary of name to float32 [replicas, ...]: the replicas' gradients have something in common."""
    random = np.random.RandomState(seed)
    return {
        name: (random.normal(size=shape) + random.normal(size=(replicas, *shape))).astype("float32")
        for name, shape in SHAPES.items()
    }


def adasum(keras_version, *, optimizer, combine, group_size=1, **arguments):
    """Adasum around one of Keras' optimizers or of ours."""
    keras = KERAS[keras_version].optimizers
    inner = (
        make(keras_version, optimizer, **arguments) if optimizer == "LAMB" else getattr(keras, optimizer)(**arguments)
    )
    return make(keras_version, "Adasum", optimizer=inner, combine=combine, group_size=group_size)


def updated(strategy, keras_version, steps=1, **case):
    """Variables after one update from zero, or several from one: the trust ratio needs a norm."""
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        start = {name: np.full(shape, float(steps > 1)) for name, shape in SHAPES.items()}
        weights = variables(keras_version, start)
        rule = adasum(keras_version, **case)
        rule.build(weights)

    @tf.function
    def step(turn, values):
        def replica():
            index = tf.distribute.get_replica_context().replica_id_in_sync_group
            share = tf.where(index == turn, 1.5, 1.0) / replicas
            rule.apply_gradients([(share * value[index], weight) for value, weight in zip(values, weights)])

        strategy.run(replica)

    values = [tf.constant(value) for value in gradients(replicas).values()]
    for number in range(steps):
        # Of several, each is another replica's turn to have half as much again.
        step(tf.constant(number % replicas if steps > 1 else replicas), values)
    return weights


def in_a_worker(strategy, directory):
    """Arrays by name after all cases: "case/0" and so on."""
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    for label, case in CASES.items():
        if strategy.num_replicas_in_sync % case.get("group_size", 1) == 0:
            weights = updated(strategy, **case)
            arrays.update({f"{label}/{i}": copies(strategy, each)[0] for i, each in enumerate(weights)})
    weights = updated(strategy, steps=STEPS, combine="updates", **LONG)
    arrays.update({f"long/{i}": np.stack(copies(strategy, each)) for i, each in enumerate(weights)})
    return arrays


def copies(strategy, variable):
    """What each replica of this process has, in float32."""
    variable = getattr(variable, "value", variable) if not isinstance(variable, tf.Variable) else variable
    return [tf.cast(copy, tf.float32).numpy() for copy in strategy.experimental_local_results(variable)]


@pytest.fixture(
    scope="module",
    # Of two processes with three replicas each, a group of two is of both.
    params=[(2, 1), (4, 1), (2, 3), (1, 5), (1, 8)],
    ids=["2 processes", "4 processes", "2 processes of 3", "5 replicas", "8 replicas"],
)
def ends(request, tmp_path_factory):
    """What each process ended with: a list of dictionaries of arrays."""
    processes, devices = request.param
    return run_together(processes, tmp_path_factory.mktemp("cluster"), in_a_worker, devices=devices)


@pytest.mark.parametrize("case", CASES)
def test_the_combination_is_that_of_the_tree(ends, case):
    replicas, size = int(ends[0]["replicas"]), CASES[case].get("group_size", 1)
    if replicas % size:
        pytest.skip("groups of 2 need an even number of replicas")
    for i, (name, values) in enumerate(gradients(replicas).items()):
        # Minus the combination of the groups' means.
        value = -tree(values.reshape([replicas // size, size, *SHAPES[name]]).mean(axis=1))
        np.testing.assert_allclose(ends[0][f"{case}/{i}"], value, rtol=2e-6, atol=2e-6, err_msg=name)


def test_all_replicas_hold_the_same_bits_after_many_updates(ends):
    for i in range(len(SHAPES)):
        copies = np.concatenate([end[f"long/{i}"] for end in ends])
        assert np.isfinite(copies).all() and np.abs(copies[0] - 1.0).max() > 1e-3 * STEPS**0.5
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0])
