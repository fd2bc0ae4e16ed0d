"""One small `fit` with ExactResume, which can be interrupted at any hook.

`python -m tests.helpers.resumed_fit KERAS KIND DIRECTORY OUTPUT [HOOK COUNT]` kills itself by SIGKILL at the COUNT-th
call of a hook, or else leaves what the training ended with in OUTPUT (.npz).
"""

import json
import os
import signal
import sys

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, OPTIMIZERS
from tfbigbatch.callbacks import ExactResume, training_state
from tfbigbatch.data.sources.tf_data import TfDataExamples

EXAMPLES, BATCH, EPOCHS = 40, 8, 3
# Batches in an epoch of each kind of data; the last one of 'arrays' is smaller.
STEPS = {"arrays": 6, "indexable": 5, "pipeline": 6, "endless": 5, "function": 6, "dataset": 5}


class Killed(Exception):
    """In place of a killed process."""


def examples(count=EXAMPLES):
    random = np.random.RandomState(0)
    features = random.normal(size=(count, 4)).astype("float32")
    return features, (features[:, :1] ** 2 + features[:, 1:2]).astype("float32")


class Rows:
    """As PyTorch's datasets."""

    def __init__(self, features, labels):
        self.features, self.labels = features, labels

    def __len__(self):
        return len(self.features)

    def __getitem__(self, index):
        return self.features[index], self.labels[index]


def data_of(kind, resume, batch_size=BATCH, seed=3):
    """The training data of a kind."""
    if kind == "arrays":
        return resume.data(*examples(EXAMPLES + 3), batch_size=batch_size, seed=seed)
    if kind == "indexable":
        return resume.data(Rows(*examples()), batch_size=batch_size, seed=seed)
    if kind == "dataset":
        features, _ = examples()
        numbers = np.arange(EXAMPLES, dtype=np.int64) % 2

        def make(seed):
            return tf.data.Dataset.from_tensor_slices((features, numbers)).shuffle(17, seed=seed)

        return resume.data(TfDataExamples(make, "made"), batch_size=batch_size, seed=seed)
    if kind == "endless":
        pipeline = tf.data.Dataset.from_tensor_slices(examples()).shuffle(17, seed=seed).repeat()
        return resume.data(pipeline.batch(batch_size).prefetch(2), steps_per_epoch=5)

    def of_epoch(epoch):
        pipeline = tf.data.Dataset.from_tensor_slices(examples(EXAMPLES + 3)).shuffle(17, seed=seed + epoch)
        return pipeline.batch(batch_size).prefetch(2)

    return resume.data(of_epoch if kind == "function" else of_epoch(0))


def model_of(keras_version, optimizer=None, **compile_arguments):
    """A compiled network with dropout and batch normalisation."""
    keras = KERAS[keras_version]
    keras.utils.set_random_seed(7)
    if keras_version == "tf_keras":
        keras.backend.experimental.enable_tf_random_generator()
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((4,)),
            layers.Dense(6, "tanh"),
            layers.BatchNormalization(),
            layers.Dropout(0.3, seed=5),
            layers.Dense(1),
        ]
    )
    if optimizer is None:
        optimizer = OPTIMIZERS[keras_version].LAMB(0.02, accumulation_steps=2)
    model.compile(optimizer, "mse", metrics=["mae"], jit_compile=False, **compile_arguments)
    return model


def die_at(keras_version, hook, count, die):
    """A callback that calls `die` at the count-th call of a hook."""
    calls = []

    def called(self, *arguments, **named):
        calls.append(hook)
        if len(calls) == count:
            die()

    return type("DieAt", (KERAS[keras_version].callbacks.Callback,), {hook: called})()


def die_while_saving(count, die):
    """Makes the count-th save die when its tensors are written, and nothing else is."""
    save, calls = training_state.TrainingState.save, []

    def dying(self, folder, **options):
        save(self, folder, **options)
        calls.append(folder)
        if len(calls) == count:
            die()

    training_state.TrainingState.save = dying
    return save


def ended(model, history):
    """All that a training ended with, as arrays by name."""
    found = {f"weight {index}": value for index, value in enumerate(model.get_weights())}
    variables = model.optimizer.variables
    for index, each in enumerate(variables() if callable(variables) else variables):
        found[f"optimizer {index}"] = np.asarray(each)
    found.update({f"history {name}": np.asarray(values) for name, values in history.history.items()})
    found["epochs"] = np.asarray(history.epoch)
    return found


def train(
    keras_version,
    kind,
    directory,
    die=(),
    every=2,
    epochs=EPOCHS,
    model=None,
    others=(),
    initial_epoch=0,
    **data_arguments,
):
    """Trains, resuming what is in the directory, and returns what it ended with.

    Args:
      die: callbacks after ExactResume.
      others: callbacks whose counters continue.
    """
    resume = ExactResume(directory, every=every, callbacks=others)
    model = model or model_of(keras_version)
    data = data_of(kind, resume, **data_arguments)
    features, labels = examples(10)
    history = model.fit(
        data,
        epochs=epochs,
        initial_epoch=initial_epoch,
        validation_data=(features, labels),
        verbose=0,
        callbacks=[*others, resume, *die],
    )
    return ended(model, history)


def raise_killed():
    raise Killed


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def main(keras_version, kind, directory, output, hook=None, count=0):
    die = []
    if hook == "saving":
        die_while_saving(int(count), kill)
    elif hook:
        die = [die_at(keras_version, hook, int(count), kill)]
    np.savez(output, **train(keras_version, kind, directory, die))
    print(json.dumps({"done": True}))


if __name__ == "__main__":
    main(*sys.argv[1:])
