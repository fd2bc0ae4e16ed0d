"""The loss of a finished run on training examples, without dropout: how well it fits its data."""

from __future__ import annotations

from typing import Any

import ml_collections
import tensorflow as tf
import tf_keras

from tfbigbatch import tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import keras_policy
from tfbigbatch.runs import checkpoint_files, load, stored_run
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import phases
from tfbigbatch.training.build import compiled_model

CROSS_ENTROPY = "cross_entropy"


class TrainedRun:
    """A finished run with its data, on one device.

    Sets Keras' precision policy to that of the run.

    Args:
      model_dir: the run directory.
      data_dir: folder of the task's data; None for the one that the run remembers.
      use_fake_data: whether the run was trained on fake data.

    Attributes:
      task: of the run's last phase.

    Raises:
      ValueError: the directory holds no run, or the data cannot be read.
    """

    def __init__(self, model_dir: str, *, data_dir: str | None = None, use_fake_data: bool = False) -> None:
        self._model_dir = model_dir
        config = ml_collections.ConfigDict(load.run_config(model_dir))
        data_dir = stored_run.data_dir_of(model_dir) if data_dir is None else data_dir
        # The weights alone are of interest.
        config.optimizer = ml_collections.ConfigDict({"name": "momentum", "momentum": 0.0})
        config.schedule.moments = config.schedule.weight_decay = "none"
        scaling = ("schedule.moments", "schedule.weight_decay")
        config.phases = tuple(
            {name: value for name, value in fields.items() if name not in scaling} for fields in config.phases
        )
        config.steps_per_execution = 1
        self._config = config
        self._phases = phases.phases_of(config, lambda fields: _task(fields, data_dir, use_fake_data), 1)

    @property
    def task(self) -> Task:
        return self._phases[-1].task

    def training_loss(self, examples: int) -> float:
        """The mean cross entropy of the newest weights on the first `examples` training examples, in nats.

        The examples are read as an evaluation reads them: in order, without dropout or augmentation. Of a text in
        streams they are the first windows of each stream, so that they are from all over it.

        Raises:
          ValueError: there is no checkpoint, it is damaged, or the task has no metric of this name.
        """
        paths = checkpoint_files.paths(RunDirectory(self._model_dir).checkpoints)
        if not paths:
            raise InputError(f"{self._model_dir} holds no checkpoint. Train it with this --model_dir.")
        tf_keras.backend.clear_session()
        tf_keras.mixed_precision.set_global_policy(keras_policy(self._config.mixed_precision))
        model = compiled_model(self._config, self._phases)
        load.restore(model.network, paths[0])
        batch_size, train = self._phases[-1].plan.evaluation_batch_size, self.task.train
        steps = min(-(-examples // batch_size), train.evaluation_steps(batch_size))
        batches = train.evaluation_batches(tf.distribute.InputContext(), batch_size=batch_size)
        return cross_entropy_of(model.evaluate(batches.take(steps), steps=steps, verbose=0, return_dict=True))


def cross_entropy_of(metrics: dict[str, Any]) -> float:
    """The nats among the metrics of an evaluation: 'cross_entropy', or the first name that ends so.

    Raises:
      ValueError: there is none.
    """
    found = [name for name in metrics if name.endswith(CROSS_ENTROPY)]
    if not found:
        raise InputError(f"metrics {', '.join(metrics)}: none is a {CROSS_ENTROPY}. The task gives no loss in nats.")
    return float(metrics[CROSS_ENTROPY if CROSS_ENTROPY in found else found[0]])


def _task(fields: ml_collections.ConfigDict, data_dir: str | None, use_fake_data: bool) -> Task:
    return tasks.get(fields.task)(
        model=fields.model.to_dict(), data=fields.data.to_dict(), data_dir=data_dir, use_fake_data=use_fake_data
    )
