"""Measures the checkpoints of a run: loss, metrics, sharpness, gradient noise, distance from initialization."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import ml_collections
import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch import instruments, tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import completed, keras_policy, recorded_precision, register_task_of
from tfbigbatch.runs import checkpoint_files, initial_weights, load, stored_run
from tfbigbatch.runs.run_directory import checked_config, read_json
from tfbigbatch.training import phases
from tfbigbatch.training.train_step import TrainingModel

_MICRO_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Probes:
    """Numbers of training examples for the measurements, multiples of 64.

    Attributes:
      fit: for loss and metrics on training data.
      sharpness: for the Hessian, which reads each example about 80 times.
      noise: for the gradient noise scale.
    """

    fit: int = 9984
    sharpness: int = 512
    noise: int = 4096

    def __post_init__(self) -> None:
        for name, examples in dataclasses.asdict(self).items():
            if examples % _MICRO_BATCH or examples < 2 * _MICRO_BATCH:
                raise InputError(
                    f"{name}={examples} examples: expected a multiple of {_MICRO_BATCH}, {2 * _MICRO_BATCH} or more."
                )


class CheckpointAnalysis:
    """Measures the kept checkpoints of a run, and its initial weights.

    Measurements are made on one device and without dropout and the optimizer; for gradients, batch normalisation works
    as in training. Sets Keras' precision policy and seeds to those of the run.

    Args:
      model_dir: the run directory.
      data_dir: folder of the task's data; None for the one that the run remembers.
      probes: how many examples to measure on.
      use_fake_data: whether the run was trained on fake data.

    Attributes:
      config: of the run.
      steps: of the checkpoints, ascending; 0 for the initial weights.

    Raises:
      ValueError: the directory holds no run or no checkpoint, or the task carries state, has batches of several shapes,
        or has a score in place of metrics.
    """

    def __init__(
        self, model_dir: str, *, data_dir: str | None = None, probes: Probes | None = None, use_fake_data: bool = False
    ) -> None:
        self.config = _config(model_dir)
        self._paths = {checkpoint_files.step_of(path): path for path in _checkpoints(model_dir)}
        self.steps = sorted({0, *self._paths})
        self._probes = probes or Probes()
        config = ml_collections.ConfigDict(self.config)
        tf_keras.backend.clear_session()
        tf_keras.backend.experimental.enable_tf_random_generator()
        tf_keras.utils.set_random_seed(config.seed)
        tf_keras.mixed_precision.set_global_policy(keras_policy(config.mixed_precision))
        data_dir = stored_run.data_dir_of(model_dir) if data_dir is None else data_dir
        self._phase = phases.phases_of(config, lambda fields: _task(fields, data_dir, use_fake_data), 1)[0]
        task = self._task = self._phase.task
        if task.carries_state or task.batch_slices or task.has_scores:
            raise InputError(
                f"{model_dir}: task {config.task} has examples in streams, in several shapes, or scores instead of "
                "metrics. Expected a run of a classification task."
            )
        self._model = TrainingModel(task.network(), real_examples=task.real_examples)
        self._model.compile("sgd", task.loss(), weighted_metrics=task.metrics())
        init_from = (stored_run.content_of(model_dir) or {}).get("init_from")
        if init_from:
            initial_weights.load_into(self._model.network, init_from["checkpoint"])
        self._start = self._model.network.get_weights()
        self._sharpness = instruments.keras2.Sharpness(
            probe=self._batches(0, self._probes.sharpness), seed=config.seed, trace_samples=10
        )

    def measure(self, step: int) -> dict[str, Any]:
        """The measurements of the checkpoint at `step`.

        Returns:
          The task's metrics as `train_*` and, on the held-out set, `test_*` or `validation_*`; the values of
          `instruments.Sharpness`; `critical_batch_size`, `low` and `high` of `GradientNoiseScale`; `weight_norm`, and
          `distance` from the initial weights, both over the trainable ones.

        Raises:
          ValueError: the checkpoint is missing or damaged.
        """
        self._restore(step)
        found: dict[str, Any] = {"step": step, **self._fit()}
        found.update(self._sharpness.measure(self._model, step))
        found.update(self._noise_scale())
        trained = self._model.network.trainable_variables
        now = [variable.numpy() for variable in trained]
        self._model.network.set_weights(self._start)
        start = [variable.numpy() for variable in trained]
        found["weight_norm"] = _norm(now)
        found["distance"] = _norm([after - before for before, after in zip(start, now)])
        return found

    def noise_scale(self, step: int) -> dict[str, float]:
        """`critical_batch_size`, `low` and `high` at a checkpoint, in examples; {} where the noise hides the gradient.

        Raises:
          ValueError: the checkpoint is missing or damaged.
        """
        self._restore(step)
        return self._noise_scale()

    def _noise_scale(self) -> dict[str, float]:
        noise = instruments.keras2.GradientNoiseScale(probe=self._fresh_probe)
        measured: dict[str, Any] = {}
        for number in range(self._probes.noise // (8 * _MICRO_BATCH)):
            measured = noise.measure(self._model, number)
        return {name: measured[name] for name in ("critical_batch_size", "low", "high") if name in measured}

    def _restore(self, step: int) -> None:
        if step == 0:
            self._model.network.set_weights(self._start)
            return
        path = self._paths.get(step)
        if path is None:
            raise InputError(f"step={step}: there is no such checkpoint; expected one of {self.steps}.")
        try:
            load.read_weights(self._model.network, path)
        # IndexError: TensorFlow's error for a truncated file.
        except (AssertionError, ValueError, IndexError, tf.errors.OpError) as error:
            raise InputError(f"checkpoint {path} cannot be read: {str(error).strip().splitlines()[0]}") from None

    def _fit(self) -> dict[str, float]:
        phase, model = self._phase, self._model
        train = model.evaluate(
            self._training_set(0, self._probes.fit), steps=self._probes.fit // _MICRO_BATCH, verbose=0, return_dict=True
        )
        held_out = model.evaluate(
            phase.held_out.evaluation_batches(
                tf.distribute.InputContext(), batch_size=phase.plan.evaluation_batch_size
            ),
            steps=phase.evaluation_steps,
            verbose=0,
            return_dict=True,
        )
        name = self.config["evaluate_on"]
        return {
            **{f"train_{metric}": value for metric, value in train.items()},
            **{f"{name}_{metric}": value for metric, value in held_out.items()},
        }

    def _fresh_probe(self, number: int) -> list[Any]:
        return self._batches(1 + number, 8 * _MICRO_BATCH)

    def _batches(self, number: int, examples: int) -> list[Any]:
        return list(self._training_set(number, examples))

    def _training_set(self, number: int, examples: int) -> tf.data.Dataset:
        """Block `number` of `examples` training examples, in an order other than the run's."""
        steps = examples // _MICRO_BATCH
        return self._task.train.training_batches(
            tf.distribute.InputContext(),
            batch_size=_MICRO_BATCH,
            seed=self.config["seed"] + 1,
            first_step=number * steps,
            last_step=(number + 1) * steps,
        )


def _config(model_dir: str) -> dict[str, Any]:
    path = os.path.join(model_dir, "config.json")
    content = read_json(path)
    if content is None:
        raise InputError(f"{model_dir} holds no run: it has no config.json. Name run directories of the trainer.")
    config = checked_config(content, path)["config"]
    register_task_of(config, os.path.dirname(path))
    return {**completed(config), "mixed_precision": recorded_precision(content)}


def _checkpoints(model_dir: str) -> list[str]:
    folder = os.path.join(model_dir, "checkpoints")
    found = checkpoint_files.paths(folder)
    if not found:
        raise InputError(f"{folder} holds no checkpoint. Train first; config.keep_checkpoints sets how many are kept.")
    return found


def _task(fields: ml_collections.ConfigDict, data_dir: str | None, use_fake_data: bool) -> tasks.base.Task:
    return tasks.get(fields.task)(
        model=fields.model.to_dict(), data=fields.data.to_dict(), data_dir=data_dir, use_fake_data=use_fake_data
    )


def _norm(arrays: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.sum(np.square(array, dtype=np.float64)) for array in arrays)))
