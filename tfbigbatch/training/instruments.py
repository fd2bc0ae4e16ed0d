"""The instruments of a run, from the fields of its config."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import ml_collections
import tensorflow as tf

from tfbigbatch import instruments
from tfbigbatch.errors import InputError
from tfbigbatch.instruments.event_log import EventLog
from tfbigbatch.schedules import to_steps
from tfbigbatch.tasks.base import Task
from tfbigbatch.training.checkpoints import CheckpointPart
from tfbigbatch.utils import arguments
from tfbigbatch.utils.files import writing_errors

SOURCES = ("steps", "probe")
NAMES = ("noise_scale", "sharpness", "layers")


class RunInstruments:
    """The instruments that a config enables.

    Create it in the strategy's scope, after the network, before its first step and before anything is restored.

    Args:
      config: of the experiment.
      network: keras.Model, compiled.
      task: of the first phase; the probe is of its training examples.
      write: function of (step, scalars by name) that logs them.
      model_dir: the run directory; histograms are written to instruments/ in it.

    Attributes:
      instruments: list, in the order of the calls.
      step_gradients: None, or what takes the gradients of every step for them.
    """

    def __init__(
        self,
        config: ml_collections.ConfigDict,
        network: Any,
        task: Task,
        write: Callable[[int, Mapping[str, float]], None],
        model_dir: str,
    ) -> None:
        self._config, self._task = config, task
        self._log = _RunLog(write, os.path.join(model_dir, "instruments"))
        noise, sharpness, layers = (config.instruments[name] for name in NAMES)
        in_steps = noise.enabled and noise.source == "steps"
        self.step_gradients: instruments.StepGradients | None = None
        if layers.enabled or in_steps:
            self.step_gradients = instruments.StepGradients(len(network.trainable_variables), noise=in_steps)
        self._noise: Any = None
        self.instruments: list[instruments.Instrument] = []
        if noise.enabled:
            source = {"step_gradients": self.step_gradients} if in_steps else {"probe": self._fresh_probe}
            self._noise = instruments.GradientNoiseScale(
                **source, smoothing=noise.smoothing, **self._common("noise_scale")
            )
            self.instruments.append(self._noise)
        if sharpness.enabled:
            options = {name: sharpness[name] for name in ("eigenvalues", "iterations", "trace_samples", "radius")}
            found = instruments.Sharpness(probe=self._probe(), seed=config.seed, **options, **self._common("sharpness"))
            self.instruments.append(found)
        if layers.enabled:
            found = instruments.LayerStatistics(
                step_gradients=self.step_gradients,
                histograms=layers.histograms,
                spectrum=layers.spectrum,
                **self._common("layers"),
            )
            self.instruments.append(found)

    def checkpoint_part(self) -> CheckpointPart:
        """The averages in a checkpoint, so that a resumed run continues them."""
        more = {}
        if self._noise is not None:
            more["noise_average"] = self._noise.average
        if self.step_gradients is not None:
            more["step_gradients"] = self.step_gradients.variables
        return CheckpointPart(more)

    def _common(self, name: str) -> dict[str, Any]:
        every = to_steps(
            self._config.instruments[name].every,
            name=f"instruments.{name}.every",
            batch_size=self._config.batch_size,
            dataset_size=self._task.train.examples_in_epoch(self._config.batch_size),
        )
        return {"when": every, "log": self._log}

    def _probe(self, number: int = 0, seed: int | None = None) -> tf.data.Dataset:
        """Training examples as micro-batches: probe `number` in the order of a seed."""
        probe = self._config.instruments.probe
        return self._task.train.training_batches(
            # Every worker measures the same probe.
            tf.distribute.InputContext(),
            batch_size=probe.micro_batch_size,
            seed=self._config.seed if seed is None else seed,
            first_step=number * probe.micro_batches,
            last_step=(number + 1) * probe.micro_batches,
        )

    def _fresh_probe(self, step: int) -> list[Any]:
        # In another order than the run's: examples that it was just trained on show too little of the noise.
        return list(self._probe(step, seed=self._config.seed + 1))


def optimizer_fields(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """A config's `optimizer` as a dictionary, with `layer_statistics` where an instrument reads them."""
    fields, layers = config.optimizer.to_dict(), config.instruments.layers
    if layers.enabled and layers.trust_ratio and _has_trust_ratio(fields):
        fields = {"layer_statistics": True, **fields}
    return fields


def _has_trust_ratio(fields: Mapping[str, Any]) -> bool:
    """True if the optimizer of these fields has trust ratios, other than 1."""
    name = str(fields.get("name")).lower()
    if name == "muon":
        vectors = fields.get("vectors", {})
        step = vectors.get("step") if isinstance(vectors, Mapping) else vectors
        return fields.get("scale") == "trust_ratio" or step == "lamb"
    return name in ("lamb", "lars")


def check_instruments(config: ml_collections.ConfigDict, carries_state: bool, replicas: int) -> None:
    """Checks the fields of `config.instruments`.

    Raises:
      ValueError: a field has a value that cannot be used with the task or the run.
    """
    fields = config.instruments
    probing = [name for name in NAMES if fields[name].enabled and name != "layers"]
    arguments.one_of("instruments.noise_scale.source", fields.noise_scale.source, SOURCES)
    if fields.noise_scale.enabled and fields.noise_scale.source == "steps":
        probing.remove("noise_scale")
        if config.accumulation_steps * replicas < 2:
            raise InputError(
                "instruments.noise_scale.source='steps': the noise is measured between micro-batches of a step, and "
                "this run has one. Set accumulation_steps=2 or more, train on several replicas, or take 'probe'."
            )
    if probing and carries_state:
        raise InputError(
            f"instruments.{probing[0]}.enabled: its probe begins anywhere, and the streams of task {config.task} carry "
            "state from one step to the next. Set it to False; instruments.layers, and noise_scale with the source "
            "'steps', need no probe."
        )
    for wrapper, why in (("adasum", "combines them in another way"), ("local_steps", "does not add them up")):
        if config.optimizer.get(wrapper) and (fields.layers.enabled or fields.noise_scale.enabled):
            raise InputError(
                "instruments.layers and instruments.noise_scale read the mean of the replicas' gradients, and "
                f"optimizer.{wrapper} {why}. Disable one of the two."
            )


class _RunLog:
    """The log of an instrument in a run: scalars with the run's own, histograms in a folder of TensorBoard events."""

    def __init__(self, write: Callable[[int, Mapping[str, float]], None], folder: str) -> None:
        self.folder = folder
        self._write = write
        self._events = EventLog(folder)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._write(step, values)

    def histograms(self, step: int, values: Mapping[str, Any]) -> None:
        with writing_errors(self.folder):
            self._events.histograms(step, values)
