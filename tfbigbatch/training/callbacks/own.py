"""The callbacks of a user in a run, which calls `fit` many times: they see one training, an epoch per evaluation."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.callbacks.counters import counters
from tfbigbatch.errors import InputError
from tfbigbatch.training.callbacks.base import Logs, StepCallback, crosses
from tfbigbatch.training.callbacks.logs import Evaluation
from tfbigbatch.utils.files import read_json, write_json

FILE = "callbacks.json"
"""Name of the file in a run directory with the counters of the callbacks."""

_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
# Entries of the file: a run may be resumed from an older checkpoint than its newest.
_KEPT = 10


class OwnCallbacks(StepCallback):
    """Calls Keras callbacks of a user, of Keras 2 or 3, as one call of `fit` would.

    An epoch of theirs is the interval between two evaluations, or, of a run without, between two checkpoints.
    `on_epoch_end` gets the means of the training metrics over the interval, and the evaluation's with 'val_' before
    their names. `on_train_begin` and `on_train_end` are called once in each process. A callback that sets
    `self.model.stop_training` at an epoch's end ends the run.

    Counters of the callbacks (attributes that are numbers, texts or truth values) are kept in the run directory and
    put back on resume; other attributes begin as they are constructed.

    Args:
      callbacks: those that run in this process.
      network: what they get as their model; for those of Keras 3, the Keras 3 model of a `Keras3Network`.
      optimizer: of the run, the network's `optimizer`, for callbacks of either Keras.
      directory: of the run.
      writes: whether this process writes the counters.
      agree: None in one process; in a cluster, a function of whether this worker is to stop, that returns whether any
        worker is.
      total_steps: of the run.

    Attributes:
      stopped_by: the class of the callback that ended the run, or None.
      evaluation: the run's Evaluation in the current phase; None for a run without.
      log_every: steps after which the means of the training metrics start again.
    """

    def __init__(
        self,
        callbacks: Sequence[Any],
        *,
        network: tf_keras.Model,
        optimizer: Any,
        directory: str,
        writes: bool,
        total_steps: int,
        agree: Callable[[bool], bool] | None = None,
    ) -> None:
        super().__init__()
        self.callbacks = list(callbacks)
        self.evaluation: Evaluation | None = None
        self.log_every: float = 0
        self.stopped_by: str | None = None
        self._network = network
        self._path = os.path.join(directory, FILE)
        self._writes = writes
        self._agree = agree
        self._epoch = 0
        self._has_begun = self._in_epoch = False
        self._seen: Mapping[str, float] | None = None
        self._sums: dict[str, float] = {}
        self._steps, self._window_start = 0, 0
        # After on_train_begin: what differs later are counters, and not the arguments of a constructor.
        self._initial: list[dict[str, Any]] = [{} for _ in self.callbacks]
        self._hooks = [name for name in _BATCH_HOOKS[:2] if any(_overrides(each, name) for each in self.callbacks)]
        _give_optimizer(network, optimizer)
        for callback in self.callbacks:
            callback.set_model(_model_for(callback, network))
            callback.set_params({"epochs": None, "steps": total_steps, "verbose": 0})

    # ---- Of the run -------------------------------------------------------------------------------

    def begin(self, step: int) -> None:
        """Begins the training in this process; restores the counters of a resumed run."""
        self._has_begun = True
        self._each("on_train_begin", {})
        self._initial = [counters(each) for each in self.callbacks]
        if step:
            self._restore(step)
        if self.evaluation is not None and self.evaluation.latest:
            # It was owed: the run was stopped during it.
            self._epoch_begins()
            self._epoch_ends(step)

    def end(self) -> None:
        """Ends the training in this process, whatever ended it."""
        if self._has_begun:
            self._each("on_train_end", self._logs())

    # ---- Of Keras' fit ----------------------------------------------------------------------------

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._window_start = self.step
        if not self._in_epoch:
            self._epoch_begins()

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self._hooks:
            self._each("on_train_batch_begin", self._steps + self.step - self._window_start, {})

    def on_steps(self, before: int, step: int, logs: Logs) -> None:
        if self._hooks:
            self._each("on_train_batch_end", self._steps + step - self._window_start - 1, _numbers(logs))
        if crosses(before, step, self.log_every):
            self._add_window(step, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.step > self._window_start:
            self._add_window(self.step, logs)
        evaluated = self.evaluation is not None and self.evaluation.latest is not self._seen
        if evaluated or self.evaluation is None:
            self._epoch_ends(self.step)

    # ---- Inner ------------------------------------------------------------------------------------

    def _add_window(self, step: int, logs: Logs) -> None:
        """Adds the means of a window, as `StepMetrics` writes them, to those of the epoch."""
        steps = step - self._window_start
        for name, value in _numbers(logs).items():
            self._sums[name] = self._sums.get(name, 0.0) + value * steps
        self._steps += steps
        self._window_start = step

    def _logs(self) -> dict[str, float]:
        logs = {name: total / self._steps for name, total in self._sums.items()} if self._steps else {}
        evaluated = self.evaluation.latest if self.evaluation is not None else {}
        return {**logs, **{f"val_{name}": float(value) for name, value in evaluated.items()}}

    def _epoch_begins(self) -> None:
        self._in_epoch = True
        self._sums, self._steps = {}, 0
        self._each("on_epoch_begin", self._epoch, {})

    def _epoch_ends(self, step: int) -> None:
        self._each("on_epoch_end", self._epoch, self._logs())
        self._epoch += 1
        self._in_epoch = False
        self._seen = self.evaluation.latest if self.evaluation is not None else None
        self._keep(step)
        stopping = [each for each in self.callbacks if getattr(getattr(each, "model", None), "stop_training", False)]
        stop = self._agree(bool(stopping)) if self._agree else bool(stopping)
        if stop:
            self.stopped_by = self._who_stopped(stopping)
            if self.model is not None:
                self.model.stop_training = True

    def _who_stopped(self, stopping: Sequence[Any]) -> str:
        """The class of the callback that set `stop_training`: the models that they see may be one."""
        named = [each for each in stopping if getattr(each, "stopped_epoch", 0)]
        found = named or list(stopping)
        return type(found[0]).__name__ if found else "a callback of another worker"

    def _each(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            # A dictionary of its own: a callback may add to it.
            getattr(callback, hook)(*(dict(each) if isinstance(each, dict) else each for each in arguments))

    def _keep(self, step: int) -> None:
        if not self._writes:
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


def checked(callbacks: Sequence[Any]) -> list[Any]:
    """A user's callbacks, each with the methods of a Keras callback.

    Raises:
      ValueError: one is something else.
    """
    for callback in callbacks:
        if isinstance(callback, type) or not hasattr(callback, "on_epoch_end") or not hasattr(callback, "set_model"):
            raise InputError(
                f"callbacks: {callback!r}; expected a Keras callback, such as keras.callbacks.CSVLogger()."
            )
    return list(callbacks)


def in_this_process(callbacks: Sequence[Any], is_chief: bool) -> list[Any]:
    """Those that run in this worker: all in the chief, and elsewhere those with `every_worker = True`."""
    return [each for each in callbacks if is_chief or getattr(each, "every_worker", False)]


def _numbers(logs: Logs) -> dict[str, float]:
    return {name: float(np.asarray(value)) for name, value in (logs or {}).items()}


def _changed(counters: Mapping[str, Any], initial: Mapping[str, Any]) -> dict[str, Any]:
    """The counters that differ from the initial ones; an infinite one is initial, and JSON has none."""
    return {
        name: value
        for name, value in counters.items()
        if name in initial and value != initial[name] and not (isinstance(value, float) and not math.isfinite(value))
    }


def _overrides(callback: Any, hook: str) -> bool:
    """True if a callback does something in a hook; Keras calls `on_batch_end` as `on_train_batch_end`."""
    bases = [tf_keras.callbacks.Callback]
    if "keras" in sys.modules:
        bases.append(sys.modules["keras"].callbacks.Callback)
    for name in (hook, hook.replace("train_", "")):
        if name in vars(callback):
            return True
        method = getattr(type(callback), name, None)
        if method is not None and all(method is not getattr(base, name, None) for base in bases):
            return True
    return False


def _model_for(callback: Any, network: tf_keras.Model) -> Any:
    is_keras2 = isinstance(callback, tf_keras.callbacks.Callback)
    return network if is_keras2 else getattr(network, "keras3_model", network)


@tf.__internal__.tracking.no_automatic_dependency_tracking
def _give_optimizer(network: tf_keras.Model, optimizer: Any) -> None:
    """Sets the attribute `optimizer` of the network, which is not compiled, and keeps it out of checkpoints.

    Of a network of Keras 3 also that of its model, which is what callbacks of Keras 3 see.
    """
    network.optimizer = optimizer
    network.stop_training = False
    if hasattr(network, "keras3_model"):
        # Keras 3 would track it.
        object.__setattr__(network.keras3_model, "optimizer", optimizer)
