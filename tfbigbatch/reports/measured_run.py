"""Measures a run that has ended: the loss of its newest weights on training examples, beside its logs."""

from __future__ import annotations

from typing import Any

import ml_collections
import tensorflow as tf

from tfbigbatch.config.recipe import phases
from tfbigbatch.errors import InputError
from tfbigbatch.reports.collect import Run
from tfbigbatch.reports.losses import LossCurve, NamedRow, RunLoss, cross_entropy_of
from tfbigbatch.run_directory import checkpoint_files, load, stored_run
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.tasks.base import Task
from tfbigbatch.training.build import compiled
from tfbigbatch.training.evaluation_step import EvaluationStep
from tfbigbatch.training.phases import task_of
from tfbigbatch.training.precision import set_up_keras
from tfbigbatch.training.streams import StreamStates

# Training examples that are measured.
_EXAMPLES = 4096


def training_loss(model_dir: str, *, data_dir: str | None = None, use_fake_data: bool = False) -> tuple[float, Task]:
    """The mean cross entropy of a run's newest checkpoint on its first training examples, in nats, and its last task.

    The examples are read as an evaluation reads them: in order, without dropout or augmentation. Of a text in streams
    they are the first windows of each stream, so that they are from all over it. Sets Keras' precision policy and seed
    to those of the run.

    Args:
      model_dir: the run directory.
      data_dir: folder of the task's data; None for the one that the run remembers.
      use_fake_data: True if the run was trained on fake data.

    Raises:
      ValueError: the directory holds no run or no checkpoint, the data cannot be read, or the task has no loss in nats.
    """
    config = phases(ml_collections.ConfigDict(load.run_config(model_dir)))[-1]
    folder = RunDirectory(model_dir).checkpoints
    paths = checkpoint_files.paths(folder)
    if not paths:
        raise InputError(f"{folder} holds no checkpoint. Train first.")
    set_up_keras(config.seed, config.mixed_precision)
    task = task_of(config, stored_run.data_dir_of(model_dir) if data_dir is None else data_dir, use_fake_data)
    train, batch_size = task.train, config.evaluation_batch_size
    network = compiled(task)
    load.restore(network, paths[0])
    steps = min(-(-_EXAMPLES // batch_size), train.evaluation_steps(batch_size))
    batches = train.evaluation_batches(tf.distribute.InputContext(), batch_size=batch_size)
    evaluation = EvaluationStep(
        network,
        strategy=tf.distribute.get_strategy(),
        streams=StreamStates(network, batch_size) if task.carries_state else None,
        real_examples=task.real_examples,
    )
    return cross_entropy_of(evaluation.metrics(batches.take(steps), lambda batch: None)), task


def measure(named: NamedRow, run: Run, **data: Any) -> RunLoss:
    """The losses of a run of a row that has ended, with its checkpoint; `data` and the errors are `training_loss`'s."""
    train, task = training_loss(run.directory, **data)
    constant = task.constant_loss()
    scalar, tokens = (constant.scalar, constant.tokens) if constant else ("loss", 1.0)
    series = run.scalars.series("train", scalar)
    return RunLoss(
        row=named.name,
        batch_size=named.row.batch_size,
        seed=run.seed,
        steps=run.status["step"],
        bias=run.config["model"].get("output_bias"),
        twin=named.twin,
        line=constant.entropy if constant else None,
        curve=LossCurve(list(series), [loss / tokens for loss in series.values()]),
        train=train,
        held_out=cross_entropy_of(run.status["metrics"]),
    )
