"""State that `fit` changes beside the model's weights: it continues, or an error names it."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import resumed_fit
from tests.helpers.keras_versions import KERAS, OPTIMIZERS, both_versions
from tfbigbatch.callbacks import ExactResume

first = pytest.mark.parametrize("keras_version", ["keras3", pytest.param("tf_keras", marks=pytest.mark.slow)])
STEPS = 3


def copy_at(keras_version, directory, copy, step):
    """A callback that copies the snapshots while a step is trained, as a kill there would leave them."""

    def on_train_batch_begin(self, batch, logs=None):
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen == step:
            shutil.copytree(directory, copy)

    base = KERAS[keras_version].callbacks.Callback
    return type("CopyAt", (base,), {"on_train_batch_begin": on_train_batch_begin})()


def fit(keras_version, directory, make, more=(), also=None):
    """Trains what `make` returns: the model, its callbacks and the state to compare."""
    KERAS[keras_version].utils.set_random_seed(1)
    model, callbacks, state = make(KERAS[keras_version])
    resume = ExactResume(directory, every=1, also=state if also is None else also)
    x, y = resumed_fit.examples(8 * STEPS)
    data = resume.data(x, y, batch_size=8, seed=3)
    model.fit(data, epochs=2, callbacks=[*callbacks, resume, *more], verbose=0)
    return [np.asarray(each) for each in [*model.weights, *model.optimizer.variables, *state]]


def assert_continues(keras_version, make, tmp_path, step=STEPS + 2, **options):
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    expected = fit(keras_version, whole, make, [copy_at(keras_version, whole, copy, step)], **options)
    assert expected, "nothing was compared"
    np.testing.assert_equal(fit(keras_version, copy, make, **options), expected)


def regression(keras, *layers):
    model = keras.Sequential([keras.layers.Input((4,)), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=False)
    return model


def adversaries(keras):
    """A model with two networks, and for each an optimizer."""

    class Adversaries(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = (regression(keras) for _ in range(2))
            self.loss_of_first = keras.metrics.Mean(name="first")

        def compile(self, first, others):
            super().compile(jit_compile=False)
            self.rule, self.others = first, others

        @property
        def metrics(self):
            return [self.loss_of_first]

        def train_step(self, data):
            x, y = data
            for network, rule in ((self.first, self.rule), (self.second, self.others[0])):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((network(x) - y + self.first(x)) ** 2)
                gradients = tape.gradient(loss, network.trainable_variables)
                rule.apply_gradients(zip(gradients, network.trainable_variables))
            self.loss_of_first.update_state(loss)
            return {"first": self.loss_of_first.result()}

    return Adversaries()


@first
def test_optimizers_as_attributes_and_in_lists_continue(keras_version, tmp_path):
    def make(keras, is_built=True):
        model = adversaries(keras)
        model.compile(keras.optimizers.Adam(0.05), [OPTIMIZERS[keras_version].LAMB(0.05)])
        if is_built:
            model.rule.build(model.first.trainable_variables)
            model.others[0].build(model.second.trainable_variables)
        made.append(model)
        return model, [], []

    made = []
    with pytest.raises(ValueError, match=r"this state is not saved: model.*The first step made it: .*build\(\)"):
        fit(keras_version, tmp_path / "unbuilt", lambda keras: make(keras, is_built=False), also=[])
    made.clear()
    assert_continues(keras_version, make, tmp_path, also=[])
    for one, other in zip(*([*each.rule.variables, *each.others[0].variables] for each in made), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert int(made[1].rule.iterations) == 2 * STEPS


@pytest.mark.parametrize("keras_version", ["tf_keras", pytest.param("keras3", marks=pytest.mark.slow)])
def test_a_stateful_rnn_continues(keras_version, tmp_path):
    def make(keras):
        layers = keras.layers
        recurrent = layers.GRU(3, stateful=True)
        size = {"batch_input_shape": (8, 4)} if keras_version == "tf_keras" else {"batch_shape": (8, 4)}
        model = keras.Sequential([layers.InputLayer(**size), layers.Reshape((4, 1)), recurrent, layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        states.append(recurrent)
        return model, [], []

    states = []
    assert_continues(keras_version, make, tmp_path, also=[])
    first, second = (np.asarray(each.states[0]) for each in states)
    np.testing.assert_array_equal(first, second)
    assert np.abs(first).max() > 0


def layer_with_state(keras, call, **attributes):
    class Mine(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            for name, make in attributes.items():
                setattr(self, name, make())

        def call(self, x, training=None):
            return call(self, x)

    return Mine()


@pytest.mark.parametrize("keras_version", [pytest.param("tf_keras", marks=pytest.mark.slow), "keras3"])
def test_variables_and_generators_that_are_attributes_of_a_layer_continue(keras_version, tmp_path):
    def call(layer, x):
        layer.kept["count"].assign_add(1.0)
        return x * layer.kept["count"] + layer.generator.uniform(tf.shape(x))

    def make(keras):
        layer = layer_with_state(
            keras,
            call,
            kept=lambda: {"count": tf.Variable(0.0, trainable=False)},
            generator=lambda: tf.random.Generator.from_seed(1),
        )
        return regression(keras, layer), [], [layer.kept["count"], layer.generator.state]

    assert_continues(keras_version, make, tmp_path, also=[])


@both_versions
@pytest.mark.parametrize("held", ["attribute", "closure"])
def test_a_model_that_a_callback_holds_continues(keras_version, held, tmp_path):
    """A moving average of the weights, as self-distillation has it."""

    def make(keras):
        model, teacher = regression(keras), regression(keras)

        def update(*_, **__):
            for mine, theirs in zip(teacher.weights, model.weights):
                mine.assign(0.5 * mine + 0.5 * theirs)

        if held == "closure":
            return model, [keras.callbacks.LambdaCallback(on_train_batch_end=update)], teacher.weights
        callback = keras.callbacks.Callback()
        callback.teacher, callback.on_train_batch_end = teacher, update
        return model, [callback], teacher.weights

    assert_continues(keras_version, make, tmp_path, also=[])


@first
def test_what_only_the_training_step_knows_is_named_and_can_be_given(keras_version, tmp_path):
    def make(keras):
        count = tf.Variable(0.0, name="my_count", trainable=False)

        def counted(layer, x):
            return x * count.assign_add(1.0)

        return regression(keras, layer_with_state(keras, counted)), [], [count]

    with pytest.raises(ValueError, match=r"this state is not saved: my_count:0 \(float32 \(\)\).*also=\["):
        fit(keras_version, tmp_path / "whole", make, also=[])
    assert not [name for name in os.listdir(tmp_path / "whole") if name.startswith("step-")]
    assert_continues(keras_version, make, tmp_path)


@both_versions
def test_random_operations_with_state_of_their_own_are_named(keras_version, tmp_path):
    def make(keras):
        noise = layer_with_state(keras, lambda layer, x: x + tf.random.normal(tf.shape(x), seed=3))
        return regression(keras, noise), [], []

    with pytest.raises(ValueError, match="this state is not saved: .*random_normal.*SeedGenerator"):
        fit(keras_version, tmp_path, make)


# ---- Other callbacks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keras_version, step",
    [
        pytest.param("keras3", 1, marks=pytest.mark.slow),
        ("tf_keras", 1),
        ("keras3", 2),
        pytest.param("tf_keras", 2, marks=pytest.mark.slow),
        pytest.param("tf_keras", STEPS + 1, marks=pytest.mark.slow),
    ],
)
def test_what_the_hooks_of_an_epochs_begin_did_is_not_done_twice(keras_version, step, tmp_path):
    def make(keras):
        halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        return regression(keras), [halve], []

    assert_continues(keras_version, make, tmp_path, step=step, also=[])


@both_versions
@pytest.mark.parametrize("hook", ["on_epoch_end", "on_train_batch_end"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_training_that_a_callback_has_stopped_stays_stopped(keras_version, hook, is_first, tmp_path):
    """Killed after the save: in the end of fit."""

    class Stop(KERAS[keras_version].callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def on_train_end(self, logs=None):
            if is_killed:
                raise resumed_fit.Killed

    def stop(self, number, logs=None):
        self.calls += 1
        self.model.stop_training = self.calls >= 2

    setattr(Stop, hook, stop)

    def train():
        model, stopping = regression(KERAS[keras_version]), Stop()
        resume = ExactResume(tmp_path)
        if is_first:
            data = resume.data(*resumed_fit.examples(8 * STEPS), batch_size=8)
        else:
            endless = tf.data.Dataset.from_tensor_slices(resumed_fit.examples()).repeat().batch(8)
            data = resume.data(endless, steps_per_epoch=STEPS)
        trained.append(model)
        callbacks = [stopping, resume] if is_first else [resume, stopping]
        return model.fit(data, epochs=5, callbacks=callbacks, verbose=0)

    trained, is_killed = [], True
    with pytest.raises(resumed_fit.Killed):
        train()
    is_killed = False
    history = train()
    assert history.epoch == ([0, 1] if hook == "on_epoch_end" else [0])
    assert int(trained[1].optimizer.iterations) == (2 * STEPS if hook == "on_epoch_end" else 2)
    np.testing.assert_equal(*(model.get_weights() for model in trained))
