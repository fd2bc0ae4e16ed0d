"""The Keras callbacks of a user in a run: they see one training, with an epoch for each evaluation."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfbigbatch.callbacks.counters import counters
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.utils.files import read_json, write_json

FILE = "callbacks.json"
"""Name of the file in a run directory with the counters of the callbacks."""

_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
# Entries of the file: a run may be resumed from an older checkpoint than its newest.
_KEPT = 10


class UserCallbacks:
    """Calls the hooks of Keras callbacks, of Keras 2 or 3, as one call of `fit` would.

    An epoch of theirs is the interval between two evaluations, or, of a run without, between two checkpoints.
    `on_epoch_end` gets the means of the training metrics over the interval, and the evaluation's with 'val_' before
    their names. `on_train_begin` and `on_train_end` are called once in each process. A callback that sets
    `self.model.stop_training` at an epoch's end ends the run.

    Counters of the callbacks (attributes that are numbers, texts or truth values) are kept in the run directory and
    put back on resume; other attributes begin as they are constructed.

    Args:
      callbacks: those that run in this process; none where `[]`.
      network: what they get as their model; its `optimizer` is the run's.
      files: the run directory, in which the chief writes the counters.
      agree: function of whether this worker is to stop; returns whether any worker is.
      total_steps: of the run.

    Attributes:
      stopped_by: the class of the callback that ended the run, or None.
      wants_batches: True if a hook wants to see every batch.
    """

    def __init__(
        self,
        callbacks: Sequence[Any],
        *,
        network: Any,
        files: RunDirectory,
        agree: Callable[[bool], bool],
        total_steps: int,
    ) -> None:
        self.callbacks = list(callbacks)
        self.stopped_by: str | None = None
        hooks = [getattr(each, hook, None) for each in self.callbacks for hook in _BATCH_HOOKS]
        # Keras marks those of its own that do nothing.
        self.wants_batches = any(hook and not getattr(hook, "_is_default", False) for hook in hooks)
        self._path, self._writes = os.path.join(files.path, FILE), files.is_chief
        self._entries: list[dict[str, Any]] = []
        self._agree = agree
        self._epoch = 0
        self._has_begun = self._in_epoch = False
        self._sums: dict[str, float] = {}
        # Steps of the epoch: in windows that were added, and of the first of the next window.
        self._steps, self._window_start = 0, 0
        self._evaluated: Mapping[str, float] = {}
        # After on_train_begin: what differs later are counters, and not the arguments of a constructor.
        self._initial: list[dict[str, Any]] = [{} for _ in self.callbacks]
        if self.callbacks:
            network.stop_training = False
        for callback in self.callbacks:
            callback.set_model(network)
            callback.set_params({"epochs": None, "steps": total_steps, "verbose": 0})

    def begin(self, step: int) -> None:
        """Begins the training in this process; restores the counters of a resumed run."""
        self._has_begun = True
        self._each("on_train_begin", {})
        self._initial = [counters(each) for each in self.callbacks]
        self._window_start = step
        if step and self.callbacks and os.path.exists(self._path):
            self._restore(step)

    def before_steps(self, step: int) -> None:
        """Called before the steps from `step` on: begins an epoch, and a batch where a hook wants to see it."""
        if not self._in_epoch:
            self._epoch_begins(step)
        if self.wants_batches:
            self._each("on_train_batch_begin", self._steps + step - self._window_start, {})

    def after_step(self, step: int, means: Callable[[], Mapping[str, float]]) -> None:
        """Called after every call of the compiled steps.

        Args:
          step: steps done.
          means: returns the means of the metrics since the latest row; called where a hook wants them.
        """
        if self.wants_batches:
            self._each("on_train_batch_end", self._steps + step - self._window_start - 1, dict(means()))

    def add_row(self, step: int, means: Mapping[str, float]) -> None:
        """Adds the means of a row that ends at `step` to those of the epoch."""
        steps = step - self._window_start
        for name, value in means.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * steps
        self._steps += steps
        self._window_start = step

    def epoch_ends(self, step: int, evaluated: Mapping[str, float]) -> None:
        """Ends the epoch at `step`; sets `stopped_by` where a callback of any worker ends the run.

        Args:
          step: steps done.
          evaluated: the metrics of the evaluation; {} for none.
        """
        if not self._in_epoch:
            # The evaluation was owed: the run was stopped during it.
            self._epoch_begins(step)
        self._evaluated = evaluated
        self._each("on_epoch_end", self._epoch, self._logs())
        self._epoch += 1
        self._in_epoch = False
        self._keep(step)
        stopping = [each for each in self.callbacks if getattr(getattr(each, "model", None), "stop_training", False)]
        if self._agree(bool(stopping)):
            self.stopped_by = _who_stopped(stopping)

    def end(self) -> None:
        """Ends the training in this process, whatever ended it."""
        if self._has_begun:
            self._each("on_train_end", self._logs())

    def _logs(self) -> dict[str, float]:
        logs = {name: total / self._steps for name, total in self._sums.items()} if self._steps else {}
        return {**logs, **{f"val_{name}": float(value) for name, value in self._evaluated.items()}}

    def _epoch_begins(self, step: int) -> None:
        self._in_epoch = True
        self._sums, self._steps, self._window_start = {}, 0, step
        self._each("on_epoch_begin", self._epoch, {})

    def _each(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            # A dictionary of its own: a callback may add to it.
            getattr(callback, hook)(*(dict(each) if isinstance(each, dict) else each for each in arguments))

    def _keep(self, step: int) -> None:
        if not self._writes or not self.callbacks:
            return
        states = [
            {"class": type(each).__name__, "state": _changed(counters(each), initial)}
            for each, initial in zip(self.callbacks, self._initial)
        ]
        entry = {"step": step, "epoch": self._epoch, "callbacks": states}
        self._entries = [*(each for each in self._entries[1 - _KEPT :] if each["step"] < step), entry]
        write_json(self._path, self._entries)

    def _restore(self, step: int) -> None:
        try:
            self._entries = [each for each in read_json(self._path) if each["step"] <= step]
            for newest in self._entries[-1:]:
                self._epoch = int(newest["epoch"])
                for callback, initial, kept in zip(self.callbacks, self._initial, newest["callbacks"]):
                    if kept["class"] == type(callback).__name__:
                        vars(callback).update({name: kept["state"][name] for name in initial if name in kept["state"]})
        except (TypeError, KeyError, ValueError, OverflowError):
            raise InputError(
                f"{self._path} does not hold the counters of callbacks. Remove the file: they begin again."
            ) from None


def in_this_process(callbacks: Sequence[Any], is_chief: bool) -> list[Any]:
    """The callbacks that run in this worker: all in the chief, and elsewhere those with `every_worker = True`.

    Raises:
      ValueError: one is no Keras callback.
    """
    for callback in callbacks:
        if isinstance(callback, type) or not hasattr(callback, "on_epoch_end") or not hasattr(callback, "set_model"):
            raise InputError(
                f"callbacks: {callback!r}; expected a Keras callback, such as keras.callbacks.CSVLogger()."
            )
    return [each for each in callbacks if is_chief or getattr(each, "every_worker", False)]


def _who_stopped(stopping: Sequence[Any]) -> str:
    """The class of the callback that set `stop_training`; all see one model."""
    named = [each for each in stopping if getattr(each, "stopped_epoch", 0)]
    found = named or list(stopping)
    return type(found[0]).__name__ if found else "a callback of another worker"


def _changed(counters: Mapping[str, Any], initial: Mapping[str, Any]) -> dict[str, Any]:
    """The counters that differ from the initial ones; an infinite one is initial, and JSON has none."""
    return {
        name: value
        for name, value in counters.items()
        if name in initial and value != initial[name] and not (isinstance(value, float) and not math.isfinite(value))
    }
