"""Measures the checkpoints of a run: the loss on training examples, and the gradient noise scale."""

from __future__ import annotations

from typing import Any

import ml_collections
import tensorflow as tf
import tf_keras

from tfbigbatch import instruments, tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import keras_policy
from tfbigbatch.reports.collect import Run
from tfbigbatch.reports.losses import LossCurve, NamedRow, RunLoss, cross_entropy_of
from tfbigbatch.runs import checkpoint_files, load, stored_run
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import RunDirectory
from tfbigbatch.tasks.base import Task
from tfbigbatch.training import phases
from tfbigbatch.training.build import compiled_model

_MICRO_BATCH = 64
# Micro-batches in each measurement of the gradient noise, and measurements.
_NOISE_BATCHES, _NOISE_LOOKS = 8, 8


class MeasuredRun:
    """A run with its data and checkpoints, on one device and without dropout and the optimizer.

    For gradients, batch normalisation works as in training. Sets Keras' precision policy and seed to those of the run.

    Args:
      model_dir: the run directory.
      data_dir: folder of the task's data; None for the one that the run remembers.
      use_fake_data: True if the run was trained on fake data.

    Attributes:
      config: of the run.
      task: of its last phase.
      steps: of the kept checkpoints, ascending.

    Raises:
      ValueError: the directory holds no run or no checkpoint, or the data cannot be read.
    """

    def __init__(self, model_dir: str, *, data_dir: str | None = None, use_fake_data: bool = False) -> None:
        config = self.config = ml_collections.ConfigDict(load.run_config(model_dir))
        folder = RunDirectory(model_dir).checkpoints
        self._paths = {checkpoint_files.step_of(path): path for path in checkpoint_files.paths(folder)}
        self.steps = sorted(self._paths)
        if not self._paths:
            raise InputError(
                f"{folder} holds no checkpoint. Train first; config.keep_checkpoints sets how many are kept."
            )
        data_dir = stored_run.data_dir_of(model_dir) if data_dir is None else data_dir
        # The weights alone are of interest.
        config.optimizer = ml_collections.ConfigDict({"name": "momentum", "momentum": 0.0})
        config.schedule.moments = config.schedule.weight_decay = "none"
        config.phases = tuple(
            {name: value for name, value in fields.items() if name not in ("schedule.moments", "schedule.weight_decay")}
            for fields in config.phases
        )
        config.steps_per_execution = 1
        tf_keras.backend.clear_session()
        tf_keras.backend.experimental.enable_tf_random_generator()
        tf_keras.utils.set_random_seed(config.seed)
        tf_keras.mixed_precision.set_global_policy(keras_policy(config.mixed_precision))
        found = phases.phases_of(config, lambda fields: _task(fields, data_dir, use_fake_data), 1)
        self._phase = found[-1]
        self.task = self._phase.task
        self._model = compiled_model(config, found)

    def training_loss(self, step: int, examples: int) -> float:
        """The mean cross entropy of a checkpoint on the first `examples` training examples, in nats.

        The examples are read as an evaluation reads them: in order, without dropout or augmentation. Of a text in
        streams they are the first windows of each stream, so that they are from all over it.

        Raises:
          ValueError: the checkpoint is missing or damaged, or the task has no metric of this name.
        """
        self._restore(step)
        batch_size, train = self._phase.plan.evaluation_batch_size, self.task.train
        steps = min(-(-examples // batch_size), train.evaluation_steps(batch_size))
        batches = train.evaluation_batches(tf.distribute.InputContext(), batch_size=batch_size)
        return cross_entropy_of(self._model.evaluate(batches.take(steps), steps=steps, verbose=0, return_dict=True))

    def noise_scale(self, step: int) -> dict[str, float]:
        """`critical_batch_size`, `low` and `high` of a checkpoint, in examples; {} where the noise hides the gradient.

        `high` may be infinite.

        Raises:
          ValueError: the checkpoint is missing or damaged, or the task has examples in streams or several shapes.
        """
        if self.task.carries_state or self.task.batch_slices or self.task.has_scores:
            raise InputError(
                f"task {self.config.task} has examples in streams, in several shapes, or scores instead of metrics. "
                "Expected a run of a classification task."
            )
        self._restore(step)

        def probe(number: int) -> list[Any]:
            """Block `number` of training examples, in an order other than the run's."""
            batches = self.task.train.training_batches(
                tf.distribute.InputContext(),
                batch_size=_MICRO_BATCH,
                seed=self.config.seed + 1,
                first_step=number * _NOISE_BATCHES,
                last_step=(number + 1) * _NOISE_BATCHES,
            )
            return list(batches)

        noise = instruments.keras2.GradientNoiseScale(probe=probe)
        for number in range(_NOISE_LOOKS):
            noise.measure(self._model, number)
        return {name: noise.history[-1][name] for name in ("critical_batch_size", "low", "high") if noise.history}

    def _restore(self, step: int) -> None:
        if step not in self._paths:
            raise InputError(f"step={step}: there is no such checkpoint; expected one of {self.steps}.")
        load.restore(self._model.network, self._paths[step])


def measure(
    named: NamedRow,
    run: Run,
    *,
    data_dir: str | None = None,
    fit_examples: int = 4096,
    use_fake_data: bool = False,
) -> RunLoss:
    """The losses of a run that has ended, with its checkpoint; evaluates it on training examples.

    Args:
      named: its row.
      run: the run.
      data_dir: folder of the data; None for the one that the run remembers.
      fit_examples: training examples that T is computed on.
      use_fake_data: True if the run was trained on fake data.

    Raises:
      ValueError: the data or the checkpoint cannot be read, or the task gives no loss in nats.
    """
    measured = MeasuredRun(run.directory, data_dir=data_dir, use_fake_data=use_fake_data)
    rows = read_rows(RunDirectory(run.directory).metrics)
    constant = measured.task.constant_loss()
    scalar, tokens = (constant.scalar, constant.tokens) if constant else ("loss", 1.0)
    return RunLoss(
        row=named.name,
        batch_size=named.row.batch_size,
        seed=run.seed,
        steps=run.status["step"],
        bias=run.config["model"].get("output_bias"),
        twin=named.twin,
        line=constant.entropy if constant else None,
        curve=LossCurve.from_rows(rows, scalar, tokens),
        train=measured.training_loss(measured.steps[-1], fit_examples),
        held_out=cross_entropy_of(run.status["metrics"]),
    )


def _task(fields: ml_collections.ConfigDict, data_dir: str | None, use_fake_data: bool) -> Task:
    return tasks.get(fields.task)(
        model=fields.model.to_dict(), data=fields.data.to_dict(), data_dir=data_dir, use_fake_data=use_fake_data
    )
