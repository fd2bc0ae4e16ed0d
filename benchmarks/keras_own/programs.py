"""A network with an optimizer at a batch size, compiled once for all of its runs."""

import math
import time

import keras
import numpy as np
import tensorflow as tf
from tasks import HEAD

from tfbigbatch.optimizers import keras3

_DECAY, _SGD_DECAY, _CLIP, _BETA_2 = 0.01, 0.0005, 1.0, 0.99


def optimizer(name, schedule):
    """The optimizer of a row: moments, decay, clipping and exclusions are the same for all."""
    shared = {"weight_decay": _DECAY, "global_clipnorm": _CLIP}
    ours = {"exclude_from_weight_decay": "norm_and_bias", **shared}
    if name == "LAMB":
        return keras3.LAMB(schedule, beta_2=_BETA_2, epsilon=1e-6, **ours)
    if name == "Muon":
        return keras3.Muon(schedule, vectors={"beta_2": _BETA_2}, treatments=[(HEAD, "vector")], **ours)
    if name == "Keras Lamb":
        made = keras.optimizers.Lamb(schedule, beta_2=_BETA_2, epsilon=1e-6, **shared)
    elif name == "Keras Muon":
        adam = {"adam_beta_2": _BETA_2, "epsilon": 1e-8, "adam_weight_decay": _DECAY}
        made = keras.optimizers.Muon(schedule, exclude_layers=[HEAD], **adam, **shared)
    elif name == "Nesterov":
        shared["weight_decay"] = _SGD_DECAY
        made = keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True, **shared)
    else:
        made = keras.optimizers.AdamW(schedule, beta_2=_BETA_2, **shared)
    made.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return made


class WarmupAndLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A warm-up over a tenth of the steps, then a linear decay to 0. `peak` is a variable, set before a run."""

    def __init__(self, steps):
        self.steps, self.peak = steps, tf.Variable(0.0, trainable=False)

    def __call__(self, step):
        done, warmup = tf.cast(step, tf.float32), max(1, self.steps // 10)
        return self.peak * tf.minimum((done + 1) / warmup, (self.steps - done) / max(1, self.steps - warmup))

    def get_config(self):
        return {"steps": self.steps}


class Program:
    """Trains a task's network by a row's optimizer at a batch size.

    Args:
      task: from `tasks`.
      name: of the row.
      batch_size: examples a step.
    """

    def __init__(self, task, name, batch_size):
        self._task, self._batch_size = task, batch_size
        self._schedule = WarmupAndLinearDecay(task.steps(batch_size))
        self._model = task.network()
        self._optimizer = optimizer(name, self._schedule)
        self._optimizer.build(self._model.trainable_variables)
        self._state = [np.array(variable) for variable in self._optimizer.variables]
        metrics = ["accuracy"] if task.metric.is_fraction else []
        self._model.compile(self._optimizer, task.loss, metrics=metrics, jit_compile=False)
        # Traced here, so that it is in no run's seconds.
        self._model.fit(*(array[:batch_size] for array in task.train), batch_size=batch_size, verbose=0)

    def run(self, learning_rate, seed, split):
        """Trains from the seed's initial values.

        Args:
          learning_rate: the peak.
          seed: of the initial values and the order of the data.
          split: "validation" or "test".

        Returns:
          (the metric on the split, None where the loss is not finite; seconds of the training, of all threads).
        """
        keras.utils.set_random_seed(seed)
        self._model.set_weights(self._task.network().get_weights())
        for variable, value in zip(self._optimizer.variables, self._state):
            variable.assign(value)
        self._schedule.peak.assign(learning_rate)
        start = time.process_time()
        self._model.fit(*self._task.train, batch_size=self._batch_size, epochs=self._task.epochs, verbose=0)
        seconds = time.process_time() - start
        loss, *accuracy = np.atleast_1d(self._model.evaluate(*getattr(self._task, split), batch_size=512, verbose=0))
        value = float(accuracy[0] if accuracy else loss)
        return value if math.isfinite(float(loss)) else None, seconds
