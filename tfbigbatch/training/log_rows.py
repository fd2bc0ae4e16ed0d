"""The rows of a run's metrics: metrics.jsonl and TensorBoard's files."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbigbatch.errors import DivergedError
from tfbigbatch.instruments.event_log import at_step, write_scalars
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.run_directory.directory import RunDirectory, without_non_finite
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.training.phases import Phase
from tfbigbatch.utils.files import atomic_write, itself, writing_errors


class MetricsLog:
    """Writes rows of scalars for the splits 'train' and 'eval'.

    Args:
      directory: the run directory; only the chief's writes.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._writers: dict[str, Any] = {}

    def resume(self, step: int) -> None:
        """Drops the rows after `step`, which the resumed run writes again, and a last line that a crash cut short."""
        path = self._directory.metrics
        if self._directory.is_chief and os.path.exists(path):
            kept = "".join(json.dumps(row) + "\n" for row in read_rows(path) if row["step"] <= step)
            with writing_errors(path):
                atomic_write(path, lambda file: file.write(kept.encode()))

    def write(self, split: str, step: int, scalars: Mapping[str, float]) -> None:
        """Appends a row, to TensorBoard's files too."""
        if not self._directory.is_chief:
            return
        row = {"step": step, "split": split, **without_non_finite(scalars)}
        with writing_errors(self._directory.metrics):
            with open(self._directory.metrics, "a", encoding="utf-8", opener=itself) as file:
                file.write(json.dumps(row) + "\n")
        with writing_errors(self._directory.path), at_step(self._writer(split), step):
            write_scalars({name: float(value) for name, value in scalars.items()})

    def has(self, split: str, step: int) -> bool:
        """True if a row of `split` and `step` was written, by this process or one before."""
        return any((row["split"], row["step"]) == (split, step) for row in read_rows(self._directory.metrics))

    def _writer(self, split: str) -> Any:
        """The tf.summary writer of a split, created at its first use."""
        if split not in self._writers:
            self._writers[split] = tf.summary.create_file_writer(os.path.join(self._directory.path, split))
        return self._writers[split]

    def flush(self) -> None:
        """Writes what TensorBoard's files hold in memory."""
        with writing_errors(self._directory.path):
            for writer in self._writers.values():
                writer.flush()

    def close(self) -> None:
        """Closes TensorBoard's files."""
        writers, self._writers = self._writers, {}
        with writing_errors(self._directory.path):
            for writer in writers.values():
                writer.close()


class TrainingRows:
    """The rows of the training: means over a window of steps, the speed, the learning rate and the epoch.

    Args:
      log: where they are written.
      phase: of the steps.
      step: steps done; the first window begins there.
    """

    def __init__(self, log: MetricsLog, phase: Phase, step: int) -> None:
        self._log = log
        self._phase = phase
        self._finite_at = self.window_start = step
        self._began = time.perf_counter()

    def write(self, step: int, means: Mapping[str, float], learning_rate: float) -> dict[str, float]:
        """Writes the row of the window that ends at `step`, and begins the next one; returns its scalars.

        Args:
          step: steps done.
          means: of the loss and the metrics over the window, by name.
          learning_rate: of the window's last step.
        """
        batch_size, tokens = self._phase.config.batch_size, self._phase.task.train.tokens_per_example
        speed = (step - self.window_start) * batch_size / (time.perf_counter() - self._began)
        scalars = {**means, "examples_per_second": speed}
        if tokens:
            scalars["tokens_per_second"] = speed * tokens
        scalars["learning_rate"] = learning_rate
        in_ramp = self._phase.config.ramp.name != "none"
        seen = self._phase.seen(step) if in_ramp else (step - self._phase.first_step) * batch_size
        scalars["epoch"] = seen / self._phase.examples_in_epoch
        if in_ramp:
            scalars.update(examples=float(seen), batch_size=float(batch_size))
        self._log.write("train", step, scalars)
        self.window_start, self._began = step, time.perf_counter()
        return scalars

    def check_finite(self, step: int, means: Mapping[str, float]) -> None:
        """Raises DivergedError for a mean that is NaN or infinite, with its name and the window of steps."""
        for name, value in means.items():
            if not math.isfinite(value):
                raise DivergedError(f"{name} became {value} between step {self._finite_at} and step {step}.")
        self._finite_at = step


def learning_rate_at(optimizer: Any, step: int) -> float:
    """The learning rate of step number `step` (from 0)."""
    # Keras' public `learning_rate` is the value of the latest step.
    learning_rate = innermost(optimizer)._learning_rate
    if isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        # A NumPy number: TensorFlow keeps every Python number that it made a tensor of.
        return float(learning_rate(tf.constant(np.int64(step))))
    return float(tf.convert_to_tensor(learning_rate))
