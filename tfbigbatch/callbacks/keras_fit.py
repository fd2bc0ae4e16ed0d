"""A call of `fit`, of either Keras: what a callback is not told of it, and where it is made to begin."""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any

import tensorflow as tf

from tfbigbatch.errors import InputError


class Fit:
    """The `fit` that calls a callback: here is all in which the two Kerases differ.

    Args:
      hooks: its list of callbacks.
      model: that it trains.
      initial_epoch: its argument.

    Attributes:
      keras: 'tf_keras' or 'keras3'.
    """

    _SHIFTED = ("on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_epoch_end")

    def __init__(self, hooks: Any, model: Any, initial_epoch: int) -> None:
        self.hooks, self.model, self.initial_epoch = hooks, model, initial_epoch
        self._is_keras2 = any(kind.__module__.partition(".")[0] == "tf_keras" for kind in type(model).__mro__)
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

    def build(self, x: Any, y: Any, weight: Any) -> None:
        """Makes the variables of the model and its metrics from a batch, as the first step does."""
        model = self.model
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
        """Tells Keras the epoch and step to begin at; None afterwards, for another `fit` begins where it is told."""
        if self._is_keras2:
            # The name is that of BackupAndRestore's state.
            there = types.SimpleNamespace(maybe_load_initial_counters_from_ckpt=lambda *_, **__: place)
            self.model._training_state = place and there
        else:
            self.model._initial_epoch = place and place[0]

    def shift(self, first: int, steps: int) -> None:
        """Of an epoch of so many steps the first ones are done: callbacks get the numbers of the others.

        Keras 3 counts the batches from 0, and would ask for as many as a whole epoch has: its step counts iterations,
        and draws seeds, even where there is no batch.
        """
        if self._is_keras2:
            return
        hooks, model, ends_epoch = self.hooks, self.model, False
        begin, end, *after_batches = (getattr(hooks, name) for name in self._SHIFTED)

        def batch_end(batch: int, logs: Any = None) -> None:
            nonlocal ends_epoch
            end(batch + first, logs)
            ends_epoch = batch + first + 1 >= steps and not model.stop_training
            model.stop_training = model.stop_training or ends_epoch

        def after(hook: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> None:
                nonlocal ends_epoch
                if ends_epoch:
                    # Only the loop over the batches was to stop.
                    model.stop_training = ends_epoch = False
                hook(*args, **kwargs)

            return call

        shifted = (lambda batch, logs=None: begin(batch + first, logs), batch_end, *map(after, after_batches))
        vars(hooks).update(zip(self._SHIFTED, shifted))

    def end_shift(self) -> None:
        """The list of callbacks is as it was."""
        for name in self._SHIFTED:
            vars(self.hooks).pop(name, None)


def fit_of(callback: Any) -> Fit:
    """The `fit` that calls a callback: Keras tells it its model, and not its neighbours.

    Raises:
      ValueError: the callback is within another one.
    """
    hooks, frame = None, inspect.currentframe()
    while frame is not None and hooks is None:
        holder = frame.f_locals.get("self")
        neighbours = getattr(holder, "callbacks", None)
        if isinstance(neighbours, list) and any(each is callback for each in neighbours):
            hooks = holder
        frame = frame.f_back
    if hooks is None:
        raise InputError(
            f"{type(callback).__name__}: give it in fit(callbacks=[...]), itself and not within another one."
        )
    while frame is not None and "initial_epoch" not in frame.f_locals:
        frame = frame.f_back
    initial_epoch = 0 if frame is None else frame.f_locals["initial_epoch"]
    return Fit(hooks, callback.model, initial_epoch)


def has_call(model: Any) -> bool:
    """True if a model can be called; one with a training step of its own need not: it is as its layers are."""
    call = type(model).call
    return call.__qualname__ != "Model.call" or call.__module__.partition(".")[0] not in ("keras", "tf_keras")
