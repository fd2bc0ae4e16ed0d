"""Base of the instruments: when they measure, and where the measurements go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.callbacks.base import Callback
from tfbigbatch.errors import InputError
from tfbigbatch.instruments.event_log import log_of


class Instrument(Callback):
    """Base of the instruments, which measure between optimizer steps, over several calls of `fit` and resumes.

    A subclass measures in `_measure(step)` and calls `_record`. With `steps_per_execution` above 1 or accumulation in
    the optimizer, a measurement is taken at the first end of an execution at or after its step.

    Args:
      when: steps between measurements, or a list of steps.
      log: None, a folder for TensorBoard, or an object with the methods of `EventLog`.

    Attributes:
      history: list of dictionaries, one for each measurement: step, and name to float.

    Raises:
      ValueError: `when` is no such number or list.
    """

    # Lets tf_keras pass tensors, so that it does not wait for the device.
    _supports_tf_logs = True

    _due: float = 0
    steps_left: float = 0
    """Optimizer steps, or batches, until it is to be called again."""

    # The first part of the tags.
    group = ""

    def __init__(self, *, when: int | Sequence[int], log: Any) -> None:
        super().__init__()
        self.history: list[dict[str, Any]] = []
        steps = [when] if isinstance(when, int) else list(when)
        if not steps or any(isinstance(step, bool) or not isinstance(step, int) or step < 1 for step in steps):
            raise InputError(
                f"{type(self).__name__}: when={when!r}; expected the number of steps between measurements, 1 or more, "
                "or a list of steps."
            )
        self._when = when
        self._log = log_of(log)

    def measure(self, model: Any, step: int = 0) -> dict[str, Any]:
        """Measures a compiled model outside of `fit`, such as one with the weights of a checkpoint.

        Args:
          model: of Keras 2 or 3.
          step: the step in the history and the log.

        Returns:
          The entry of `history`; empty if nothing was recorded.

        Raises:
          ValueError: the instrument measures an optimizer step, which only `fit` makes.
        """
        if not self._can_measure(step):
            raise InputError(
                f"{type(self).__name__}.measure: it measures the effect of an optimizer step on the weights, and "
                "there is none outside of fit. Pass it to fit as a callback."
            )
        before = len(self.history)
        self.set_model(model)
        self._measure(step)
        return self.history[-1] if len(self.history) > before else {}

    def begin(self, model: Any) -> None:
        """Begins a training of a compiled model, at the step that its optimizer is at."""
        self.set_model(model)
        self.on_train_begin()

    def after_steps(self, count: int) -> None:
        """Called after so many batches, at most `steps_left` of them where it is to measure at its very step."""
        # A batch makes at most one step: before that, reading the counter would only wait for the device.
        self.steps_left -= count
        if self.steps_left > 0:
            return
        step = self._current_step()
        if step >= self._due and self._can_measure(step):
            self._measure(step)
            self._due = self._next_measurement(step)
        self.steps_left = self._batches_until_due(step)

    def on_train_begin(self, logs: Any = None) -> None:
        # Loss scaling and Adasum wrap the optimizer that counts.
        self._optimizer = innermost(self.model.optimizer)
        self._batch = -1
        step = self._current_step()
        self._due = self._next_measurement(step)
        self.steps_left = self._batches_until_due(step)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._batch = -1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        count, self._batch = batch - self._batch, batch
        self.after_steps(count)

    def _next_measurement(self, step: int) -> float:
        """The first step after `step` to measure at; infinity for none."""
        if isinstance(self._when, int):
            return (step // self._when + 1) * self._when
        return min((each for each in self._when if each > step), default=math.inf)

    def _batches_until_due(self, step: int) -> float:
        """Number of batches until the step counter is read again."""
        return self._due - step

    def _can_measure(self, step: int) -> bool:
        return True

    def _measure(self, step: int) -> None:
        raise NotImplementedError

    def _current_step(self) -> int:
        return int(self._optimizer.iterations.numpy())

    def _record(self, step: int, values: dict[str, float], histograms: dict[str, tf.Tensor] | None = None) -> None:
        """Adds a measurement to the history, and its finite values to the log."""
        self.history.append({"step": step, **values})
        if self._writes():
            finite = {f"{self.group}/{name}": float(v) for name, v in values.items() if math.isfinite(v)}
            self._log.scalars(step, finite)
            if histograms:
                self._log.histograms(step, {f"{self.group}/{name}": value for name, value in histograms.items()})

    def _writes(self) -> bool:
        # Every worker measures the same; the chief writes it.
        return self._log is not None and self.model.distribute_strategy.extended.should_save_summary


def innermost(optimizer: Any) -> Any:
    """The optimizer inside its wrappers, such as Adasum and loss scaling."""
    while getattr(optimizer, "inner_optimizer", None) is not None:
        optimizer = optimizer.inner_optimizer
    return optimizer
