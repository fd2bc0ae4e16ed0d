"""Keras' `fit`: its list of callbacks, and where its epochs and batches begin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import InputError


class RestOfEpoch:
    """The methods of Keras 3's list of callbacks, in an epoch that is resumed.

    Keras 3 counts the batches from 0, and would ask for as many as a whole epoch has: its step counts iterations, and
    draws seeds, even where there is no batch.

    Args:
      hooks: the list of callbacks of `fit`.
      model: that trains.
      first: steps that were done.
      steps: of a whole epoch.
    """

    def __init__(self, hooks: Any, model: Any, first: int, steps: int) -> None:
        self._hooks, self._model = hooks, model
        self._ends_epoch = False
        begin, end = hooks.on_train_batch_begin, hooks.on_train_batch_end

        def batch_end(batch: int, logs: Any = None) -> None:
            end(batch + first, logs)
            self._ends_epoch = batch + first + 1 >= steps and not model.stop_training
            model.stop_training = model.stop_training or self._ends_epoch

        hooks.on_train_batch_begin = lambda batch, logs=None: begin(batch + first, logs)
        hooks.on_train_batch_end = batch_end
        for name in ("on_test_begin", "on_epoch_end"):
            setattr(hooks, name, self._after_batches(getattr(hooks, name)))

    def _after_batches(self, hook: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> None:
            if self._ends_epoch:
                # Only the loop over the batches was to stop.
                self._model.stop_training = self._ends_epoch = False
            hook(*args, **kwargs)

        return call

    def close(self) -> None:
        """The list is as it was."""
        for name in ("on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_epoch_end"):
            vars(self._hooks).pop(name, None)


class FirstEpoch:
    """Tells Keras 2 where `fit` begins, as the state of its BackupAndRestore does; once.

    Args:
      model: that trains.
      place: (epoch, step) to begin at, or None for what `fit` was given.
      begin_at: called with the epoch that `fit` was given, where it is not 0.
    """

    def __init__(self, model: Any, place: tuple[int, int] | None, begin_at: Callable[[int], None]) -> None:
        self._model, self._place, self._begin_at = model, place, begin_at

    def maybe_load_initial_counters_from_ckpt(
        self, steps_per_epoch: int, initial_epoch: int, mode: Any
    ) -> tuple[int, int]:
        """The name and arguments are Keras'."""
        self._model._training_state = None
        if self._place is not None:
            return self._place
        if initial_epoch:
            self._begin_at(initial_epoch)
        return initial_epoch, 0


def callback_list(callback: Any) -> Any:
    """The list of callbacks of the `fit` that calls one: Keras tells a callback its model, and not its neighbours."""
    frame = inspect.currentframe()
    while frame is not None:
        holder = frame.f_locals.get("self")
        neighbours = getattr(holder, "callbacks", None)
        if isinstance(neighbours, list) and any(each is callback for each in neighbours):
            return holder
        frame = frame.f_back
    raise InputError(f"{type(callback).__name__}: give it in fit(callbacks=[...]), itself and not within another one.")


def has_call(model: Any) -> bool:
    """True if a model can be called; one with a training step of its own need not: it is as its layers are."""
    call = type(model).call
    return call.__qualname__ != "Model.call" or call.__module__.partition(".")[0] not in ("keras", "tf_keras")
