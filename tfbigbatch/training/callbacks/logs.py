"""The logs of a run: metrics.jsonl and TensorBoard's files, training metrics, evaluations, and the terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.instruments.event_log import at_step, write_scalars
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import RunDirectory, without_non_finite
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.mlperf import MLPerfLog
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
        """Appends a row."""
        if not self._directory.is_chief:
            return
        row = {"step": step, "split": split, **without_non_finite(scalars)}
        with writing_errors(self._directory.metrics):
            with open(self._directory.metrics, "a", encoding="utf-8", opener=itself) as file:
                file.write(json.dumps(row) + "\n")
        self.write_events(split, step, scalars)

    def write_events(self, split: str, step: int, scalars: Mapping[str, float]) -> None:
        """Writes scalars to TensorBoard only."""
        if not self._directory.is_chief:
            return
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


class StepMetrics(StepCallback):
    """Writes training scalars every so many steps: the mean of each metric over the window.

    It resets the model's metrics after each window, so Keras' own epoch logs are of the last
    window only. Also written: learning_rate, epoch and examples_per_second, and for texts
    tokens_per_second.

    Args:
      log: where they are written.
      every: window in steps.
      batch_size: examples in one step.
      dataset_size: examples in one epoch.
      tokens_per_example: None where an example is not a text.
      first_step: the step from which epochs are counted; in a batch ramp it may be below 0.
      examples: also write `examples`, those seen since that step, and `batch_size`, as where the batch changes.

    Attributes:
      latest: the scalars of the latest window by name; empty before the first.
    """

    def __init__(
        self,
        log: MetricsLog,
        *,
        every: float,
        batch_size: int,
        dataset_size: int,
        tokens_per_example: float | None = None,
        first_step: float = 0,
        examples: bool = False,
    ) -> None:
        super().__init__()
        self._log = log
        self._every = every
        self._batch_size = batch_size
        self._dataset_size = dataset_size
        self._tokens_per_example = tokens_per_example
        self._first_step = first_step
        self._examples = examples
        self.latest: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._restart_window()

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if crosses(before, step, self._every):
            self._write(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.step > self._window_start:
            self._write(logs)

    def _restart_window(self) -> None:
        self._window_start, self._window_time = self.step, time.perf_counter()

    def _write(self, logs: Logs) -> None:
        scalars = {name: float(value) for name, value in (logs or {}).items()}
        examples = (self.step - self._window_start) * self._batch_size
        scalars["examples_per_second"] = examples / (time.perf_counter() - self._window_time)
        if self._tokens_per_example:
            scalars["tokens_per_second"] = scalars["examples_per_second"] * self._tokens_per_example
        scalars["learning_rate"] = learning_rate_at(self.model.optimizer, self.step - 1)
        seen = (self.step - self._first_step) * self._batch_size
        scalars["epoch"] = seen / self._dataset_size
        if self._examples:
            scalars.update(examples=float(seen), batch_size=float(self._batch_size))
        self._log.write("train", self.step, scalars)
        self.latest = scalars
        self.model.reset_metrics()
        self._restart_window()


def learning_rate_at(optimizer: tf_keras.optimizers.Optimizer, step: int) -> float:
    """The learning rate of step number `step` (from 0)."""
    if isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    # Keras' public `learning_rate` is the value of the latest step; a legacy optimizer has no such attribute.
    learning_rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(learning_rate, tf_keras.optimizers.schedules.LearningRateSchedule):
        # A NumPy number: TensorFlow keeps every Python number that it made a tensor of.
        return float(learning_rate(tf.constant(np.int64(step))))
    return float(tf.convert_to_tensor(optimizer.learning_rate))


class Evaluation(StepCallback):
    """Evaluates at the end of `fit`'s epochs that reach a multiple of `every`, or the last step.

    Args:
      evaluate: returns the metrics of the current weights.
      log: where they are written.
      every: in steps.
      last_step: it is evaluated too; 0 for none.
      offset: the multiples of `every` are of step + offset.
      is_enough: None, or a function of the metrics; the run ends with the first evaluation for which it is true.
      mlperf: None, or the log that records each evaluation.

    Attributes:
      latest: the metrics of the latest evaluation; {} before the first.
      latest_step: the step of the latest evaluation that was logged; None before the first.
    """

    def __init__(
        self,
        evaluate: Callable[[], dict[str, float]],
        log: MetricsLog,
        *,
        every: float,
        last_step: int,
        offset: float = 0,
        is_enough: Callable[[dict[str, float]], bool] | None = None,
        mlperf: MLPerfLog | None = None,
    ) -> None:
        super().__init__()
        self._evaluate = evaluate
        self._log = log
        self._every = every
        self._last_step = last_step
        self._offset = offset
        self._is_enough = is_enough
        self._mlperf = mlperf
        self.latest: dict[str, float] = {}
        self.latest_step: int | None = None

    @property
    def reached(self) -> bool:
        """True if the latest evaluation is enough to end the run."""
        return self._is_enough is not None and bool(self.latest) and self._is_enough(self.latest)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if crosses(self._epoch_start, self.step, self._every, self._offset) or self.step == self._last_step:
            self._evaluate_and_log()

    def is_owed(self, step: int) -> bool:
        """True if `step` should have been evaluated and was not: the run was stopped during the evaluation."""
        is_due = step > 0 and (crosses(step - 1, step, self._every, self._offset) or step == self._last_step)
        return is_due and not self._log.has("eval", step)

    def make_up(self, model: tf_keras.Model, step: int) -> None:
        """Runs the evaluation of `step` that is owed."""
        self.set_model(model)
        self.step = step
        self._evaluate_and_log()

    def measure(self) -> None:
        """Evaluates into `latest`, and logs nothing."""
        self.latest = self._evaluate()

    def _evaluate_and_log(self) -> None:
        if self._mlperf:
            self._mlperf.evaluation_begins(self.step)
        self.measure()
        if self.reached:
            self.model.stop_training = True
        if self._mlperf:
            run_ends = self.reached or self.step >= self._last_step
            self._mlperf.evaluation_ends(self.step, self.latest, run_ends)
        self._log.write("eval", self.step, self.latest)
        self.latest_step = self.step


# Of the scalars of a window of steps, those of a line, with their formats.
_OF_A_LINE = {"learning_rate": ".4g", "examples_per_second": ",.0f"}


class Progress(StepCallback):
    """The progress of a run: a line at each tenth of it, and on a terminal one that is redrawn in place.

    Args:
      last_step: steps of the whole run.
      split: the held-out split that is evaluated.

    Attributes:
      evaluation: None, or the Evaluation whose latest metrics are shown with the loss.
      step_metrics: None, or the StepMetrics whose latest learning rate and examples a second are shown.
    """

    _REDRAW_SECONDS = 0.2

    def __init__(self, last_step: int, split: str = "test") -> None:
        super().__init__()
        self._last_step = last_step
        self._split = split
        # When a line was redrawn, and its length while it stands there.
        self._drawn, self._width = 0.0, 0
        self._logs: Logs = {}
        self.evaluation: Evaluation | None = None
        self.step_metrics: StepMetrics | None = None

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        self._logs = logs
        now = time.monotonic()
        if now - self._drawn > self._REDRAW_SECONDS and sys.stdout.isatty():
            self._drawn = now
            line = self._line()
            print(f"\r{line:<{self._width}}", end="", flush=True)
            self._width = len(line)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if crosses(self._epoch_start * 10, self.step * 10, self._last_step):
            start = "\r" if self._width else ""
            print(f"{start}{self._line():<{self._width}}", flush=True)
            self._width = 0

    def close(self) -> None:
        """Ends a line that was redrawn, so that the next one is not written behind it."""
        if self._width:
            print(flush=True)
        self._width = 0

    def _line(self) -> str:
        shown = {name: float(value) for name, value in (self._logs or {}).items() if name == "loss"}
        metrics = self.evaluation.latest if self.evaluation else {}
        shown.update({f"{self._split}_{name}": value for name, value in metrics.items()})
        latest = self.step_metrics.latest if self.step_metrics else {}
        words = [f"{name} {value:.4f}" for name, value in shown.items()]
        words += [f"{name} {latest[name]:{form}}" for name, form in _OF_A_LINE.items() if name in latest]
        return "  ".join([f"step {self.step}/{self._last_step}", *words])
