"""A call of `fit`, of either Keras: what a callback is not told of it, and where it is made to begin."""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError

_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end")


class Fit:
    """The `fit` that calls a callback, which Keras tells its model only: here is all in which the two Kerases differ.

    Args:
      callback: that it calls now.

    Attributes:
      hooks: its list of callbacks.
      initial_epoch: its argument.
      keras: 'tf_keras' or 'keras3'.

    Raises:
      ValueError: the callback is within another one.
    """

    def __init__(self, callback: Any) -> None:
        self.model, frame = callback.model, inspect.currentframe()
        self.hooks: Any = None
        while frame is not None and self.hooks is None:
            holder = frame.f_locals.get("self")
            neighbours = getattr(holder, "callbacks", None)
            if isinstance(neighbours, list) and any(each is callback for each in neighbours):
                self.hooks = holder
            frame = frame.f_back
        if self.hooks is None:
            raise InputError(
                f"{type(callback).__name__}: give it in fit(callbacks=[...]), itself and not within another one."
            )
        while frame is not None and "initial_epoch" not in frame.f_locals:
            frame = frame.f_back
        variables = {} if frame is None else frame.f_locals
        self.initial_epoch = variables.get("initial_epoch", 0)
        self._batches: Any = variables.get("epoch_iterator")
        self._of_whole_epoch: tuple[int | None, int | None] | None = None
        self._is_keras2 = any(kind.__module__.partition(".")[0] == "tf_keras" for kind in type(self.model).__mro__)
        self.keras = "tf_keras" if self._is_keras2 else "keras3"

    def steps_at_once(self) -> int:
        """The steps between two calls of the callbacks."""
        return int(self.model._steps_per_execution.numpy() if self._is_keras2 else self.model.steps_per_execution)

    def roots(self) -> dict[str, Any]:
        """The objects of Keras that have state of the training, by name: that of keras.random without a seed."""
        if self._is_keras2:
            return {}
        seeds = importlib.import_module("keras.src.random.seed_generator")
        with self.model.distribute_strategy.scope():
            return {"keras.random": seeds.global_seed_generator()}

    def build(self, batch: Any) -> None:
        """Makes the variables of the model and its metrics from a batch, as the first step does.

        A model with a training step of its own need not have a call: it is as its layers are.
        """
        model, call = self.model, type(self.model).call
        if call.__qualname__ == "Model.call" and call.__module__.partition(".")[0] in ("keras", "tf_keras"):
            return
        x, y, weight, *_ = (*batch, None, None) if isinstance(batch, tuple) else (batch, None, None)
        if not self._is_keras2:
            model._symbolic_build(data_batch=(x, y, weight))
            return
        # As many as a replica gets: an RNN with state takes no other number.
        count = max(1, len(tf.nest.flatten(x)[0]) // model.distribute_strategy.num_replicas_in_sync)
        first, labels = tf.nest.map_structure(lambda each: each[:count], (x, y))
        outputs = model(first, training=False)
        if model.compiled_loss is not None and not model.compiled_loss.built:
            model.compiled_loss.build(outputs)
        if model.compiled_metrics is not None and not model.compiled_metrics.built:
            model.compiled_metrics.build(outputs, labels)

    def begin_at(self, place: tuple[int, int] | None) -> None:
        """Sets the (epoch, step) at which Keras begins; None resets it, and a next `fit` begins at its own epoch."""
        if self._is_keras2:
            # The name is that of BackupAndRestore's state.
            there = types.SimpleNamespace(maybe_load_initial_counters_from_ckpt=lambda *_, **__: place)
            self.model._training_state = place and there
        else:
            self.model._initial_epoch = place and place[0]

    def shift(self, first: int, steps: int) -> None:
        """Tells Keras 3 how many of an epoch's steps are left after the first ones, which are done.

        It would otherwise ask for a whole epoch: its step counts iterations, and draws seeds, even where there is no
        batch.
        """
        if self._is_keras2:
            return
        self._of_whole_epoch = self._batches.steps_per_epoch, self._batches._num_batches
        self._batches.steps_per_epoch = self._batches._num_batches = steps - first

        def shifted(hook: Any) -> Any:
            return lambda batch, logs=None: hook(batch + first, logs)

        for name in _BATCH_HOOKS:
            setattr(self.hooks, name, shifted(getattr(self.hooks, name)))

    def end_shift(self) -> None:
        """Keras 3 and its list of callbacks are as they were."""
        if self._of_whole_epoch:
            self._batches.steps_per_epoch, self._batches._num_batches = self._of_whole_epoch
            for name in _BATCH_HOOKS:
                delattr(self.hooks, name)
            self._of_whole_epoch = None
