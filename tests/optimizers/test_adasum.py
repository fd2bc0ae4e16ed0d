"""Adasum: its arithmetic against float64 NumPy, the paper's identities, and around other optimizers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.keras_versions import fitted
from tests.helpers.keras_versions import variables as make_variables
from tests.helpers.optimizers_in_numpy import tree
from tfbigbatch.optimizers import adasum, keras3

ON_TPU = {"dtype": tf.float32}


def combined(vectors, **options):
    return adasum.combine([tf.constant(np.asarray(vectors), tf.float32)], **options)[0].numpy()


@pytest.mark.parametrize("options", [{}, ON_TPU])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 17, 33])
def test_any_number_of_workers_combines_as_the_tree(workers, options):
    vectors = np.random.RandomState(workers).normal(0.3, 1.0, [workers, 40]).astype("float32")
    np.testing.assert_allclose(combined(vectors, **options), tree(vectors), rtol=2e-5, atol=5e-6)


def test_four_vectors_give_horovods_values():
    vectors = [[1, 0, 2], [0, 3, 1], [2, -1, 0], [1, 1, 1]]
    np.testing.assert_allclose(combined(vectors), [2.62853504, 2.26907415, 2.76095604], rtol=1e-6)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ([1, 0], [0, 2], [1, 2]),
        ([3, 4], [3, 4], [3, 4]),
        ([1, 2], [2, 4], [1.5, 3]),
        ([1, 2], [-1, -2], [0, 0]),
        ([0, 0], [1, 2], [1, 2]),
        ([0, 0], [0, 0], [0, 0]),
        ([1e-20, 0], [0, 1e-20], [1e-20, 1e-20]),
        ([1e-22, 0], [1e-22, 0], [1e-22, 0]),
    ],
)
def test_identities(a, b, expected):
    np.testing.assert_allclose(combined([a, b]), np.float32(expected), rtol=1e-6)


def test_opposite_vectors_do_not_break_the_tree():
    random = np.random.RandomState(0)
    vectors = np.stack([random.normal(size=2000) * sign for sign in (1, 1, -1, -1, 1, -1, 1, -1)]).astype("float32")
    vectors[2:4] = -vectors[:2] + 1e-3 * random.normal(size=[2, 2000])
    expected = tree(vectors)
    error = np.abs(combined(vectors) - expected).max() / np.abs(expected).max()
    assert error < 1e-5
    assert np.abs(combined(vectors, **ON_TPU) - expected).max() / np.abs(expected).max() < 1e-3


def test_half_precision_is_combined_in_float32():
    vectors = np.random.RandomState(0).normal(size=[4, 5000])
    half = tf.constant(vectors, tf.bfloat16)
    result = adasum.combine([half])[0]
    assert result.dtype == tf.float32
    np.testing.assert_allclose(result, tree(tf.cast(half, tf.float64).numpy()), rtol=1e-5, atol=1e-5)


def test_what_is_not_finite_stays_so():
    assert np.isnan(combined([[1.0, np.nan], [1.0, 1.0]])).all()
    assert not np.isfinite(combined([[1.0, np.inf], [1.0, 1.0]])).any()


def sgd(rate=0.1, **arguments):
    return keras.optimizers.SGD(rate, **arguments)


def applied(optimizer, strategy, of_replicas, sparse=False, constraint=None):
    """The change of a variable [4, 2] after one update; `of_replicas`: [replicas, 4, 2]."""
    with strategy.scope():
        [weight] = make_variables("keras3", {"kernel": np.ones((4, 2))}, constraint)
        rule = optimizer()
        rule.build([weight])
    values = tf.constant(of_replicas, tf.float32) / strategy.num_replicas_in_sync

    @tf.function
    def step():
        def replica():
            gradient = values[tf.distribute.get_replica_context().replica_id_in_sync_group]
            if sparse:
                # Row 1 comes twice, and is meant to be added up.
                rows = tf.constant([0, 1, 1, 2, 3])
                parts = tf.gather(gradient, rows) * tf.constant([[1.0], [0.25], [0.75], [1.0], [1.0]])
                gradient = tf.IndexedSlices(parts, rows, tf.constant([4, 2]))
            rule.apply_gradients([(gradient, weight)])

        strategy.run(replica)

    step()
    return np.asarray(tf.convert_to_tensor(weight)) - 1.0, rule


def random_gradients(replicas):
    random = np.random.RandomState(replicas)
    return random.normal(size=(4, 2)) + random.normal(size=(replicas, 4, 2))


@pytest.mark.parametrize("combine", ["gradients", "updates"])
@pytest.mark.parametrize("replicas, sparse", [(2, True), (3, False), (4, False)])
def test_one_update_is_that_of_the_tree(combine, replicas, sparse):
    gradients = random_gradients(replicas)
    change, rule = applied(
        lambda: keras3.Adasum(optimizer=sgd(), combine=combine),
        mirrored(replicas),
        gradients,
        sparse,
    )
    np.testing.assert_allclose(change, -0.1 * tree(gradients), rtol=1e-4, atol=1e-6)
    assert int(np.asarray(tf.convert_to_tensor(rule.iterations))) == 1


def test_missing_gradients_are_named():
    optimizer = keras3.Adasum(optimizer=keras3.LAMB())
    kernel, bias = make_variables("keras3", {"kernel": np.ones(2), "bias": np.ones(1)})
    with pytest.raises(ValueError, match="no gradients provided for any variable: kernel.*, bias"):
        optimizer.apply_gradients([(None, kernel), (None, bias)])
    with pytest.warns(UserWarning, match="gradients do not exist for variables bias"):
        optimizer.apply_gradients([(tf.ones(2), kernel), (None, bias)])
    # The state is of all variables: a layer that is first used later has its own.
    optimizer.apply_gradients([(tf.ones(2), kernel), (tf.ones(1), bias)])
    assert bias.numpy() < 1.0 and int(optimizer.iterations) == 2


def test_clipping_follows_the_sum_of_gradients():
    gradients = random_gradients(2)
    inner = lambda: sgd(1.0, global_clipnorm=0.5)
    change, _ = applied(
        lambda: keras3.Adasum(optimizer=inner(), combine="gradients"),
        mirrored(2),
        gradients,
    )
    combined = tree(gradients)
    np.testing.assert_allclose(change, -0.5 * combined / np.linalg.norm(combined), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name, options",
    [("SGD", {"global_clipnorm": 0.5}), ("LAMB", {"global_clipnorm": 0.3}), ("Muon", {})],
)
@pytest.mark.parametrize("wrapper, arguments", [("Adasum", {"combine": "updates"}), ("LocalSteps", {"every": 1})])
def test_a_step_is_taken_by_each_replica_from_its_own_gradient(name, options, wrapper, arguments):
    """Clipped by its own norm; Muon's too: nothing is shared, even where work is shared otherwise."""
    gradients, one_device = random_gradients(2), tf.distribute.OneDeviceStrategy("CPU:0")

    def inner():
        if name == "SGD":
            return sgd(1.0, **options)
        return getattr(keras3, name)(learning_rate=0.1, weight_decay=0.01, **options)

    alone = [applied(inner, one_device, gradient[None])[0] for gradient in gradients]
    wrapped = lambda: getattr(keras3, wrapper)(optimizer=inner(), **arguments)
    change, _ = applied(wrapped, mirrored(2), gradients)
    expected = tree(alone) if wrapper == "Adasum" else np.mean(alone, axis=0)
    np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_is_that_of_the_optimizer_alone(tmp_path):
    model = fitted(
        "keras3",
        lambda: keras3.Adasum(optimizer=keras3.LAMB(learning_rate=0.02)),
        steps=3,
    )
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(tmp_path / "checkpoint"))
    alone = fitted("keras3", lambda: keras3.LAMB(learning_rate=0.02), steps=1)
    tf.train.Checkpoint(model=alone, optimizer=alone.optimizer).restore(path).assert_existing_objects_matched()
    for one, other in zip(model.optimizer.variables, alone.optimizer.variables):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_the_form_follows_the_optimizer():
    def form(optimizer):
        return keras3.Adasum(optimizer=optimizer).combine

    of_gradients = keras.optimizers.SGD(), keras3.LARS()
    of_updates = keras.optimizers.Adam(), keras.optimizers.AdamW(), keras3.LAMB()
    assert [form(each) for each in (*of_gradients, *of_updates)] == ["gradients"] * 2 + ["updates"] * 3
