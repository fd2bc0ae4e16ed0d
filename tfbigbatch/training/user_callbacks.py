"""The Keras callbacks of a user in a run: they see one training, with an epoch for each evaluation."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfbigbatch.callbacks.counters import counters
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import read_json, write_json

FILE = "callbacks.json"
"""Name of the file in a run directory with the counters of the callbacks."""

_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end")
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
      directory: of the run.
      writes: whether this process writes the counters.
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
        directory: str,
        writes: bool,
        agree: Callable[[bool], bool],
        total_steps: int,
    ) -> None:
        self.callbacks = list(callbacks)
        self.stopped_by: str | None = None
        self.wants_batches = any(_overrides(each, hook) for each in self.callbacks for hook in _BATCH_HOOKS)
        self._path = os.path.join(directory, FILE)
        self._writes = writes
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
        if step and self.callbacks:
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
        entries = [each for each in self._entries() if each["step"] < step][-_KEPT + 1 :]
        states = [
            {"class": type(each).__name__, "state": _changed(counters(each), initial)}
            for each, initial in zip(self.callbacks, self._initial)
        ]
        write_json(self._path, [*entries, {"step": step, "epoch": self._epoch, "callbacks": states}])

    def _restore(self, step: int) -> None:
        past = [each for each in self._entries() if each["step"] <= step]
        if not past:
            return
        self._epoch = int(past[-1]["epoch"])
        for callback, initial, kept in zip(self.callbacks, self._initial, past[-1]["callbacks"]):
            if kept["class"] == type(callback).__name__:
                vars(callback).update({name: value for name, value in kept["state"].items() if name in initial})

    def _entries(self) -> list[dict[str, Any]]:
        if not os.path.exists(self._path):
            return []
        content = read_json(self._path)
        try:
            return [
                {
                    "step": int(each["step"]),
                    "epoch": int(each["epoch"]),
                    "callbacks": [{"class": str(of["class"]), "state": dict(of["state"])} for of in each["callbacks"]],
                }
                for each in content
            ]
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


def _overrides(callback: Any, hook: str) -> bool:
    """True if a callback does something in a hook; Keras calls `on_batch_end` as `on_train_batch_end`."""
    bases = [sys.modules[name].callbacks.Callback for name in ("keras", "tf_keras") if name in sys.modules]
    for name in (hook, hook.replace("train_", "")):
        if name in vars(callback):
            return True
        method = getattr(type(callback), name, None)
        if method is not None and all(method is not getattr(base, name, None) for base in bases):
            return True
    return False
