"""All variables of a compiled Keras model in training: weights, optimizer, random generators, metrics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.callbacks.generators import layers_without_generator, random_generators
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.checkpointing import canonical
from tfbigbatch.optimizers.replica_state import ReplicaState, is_of_replicas
from tfbigbatch.utils.tensorflow_paths import plain

_STATE, _METRICS = "state", "metrics"


class TrainingState:
    """The variables of a model, as they are saved and restored.

    Metrics, generators and the statistics of batch normalisation may differ between replicas, and are saved for each
    replica.

    Args:
      model: compiled and built, of Keras 2 or 3.
      is_keras2: which of the two.

    Raises:
      ValueError: a layer draws random numbers from operations whose state cannot be saved.
    """

    def __init__(self, model: Any, *, is_keras2: bool) -> None:
        self._model = model
        self._strategy = model.distribute_strategy
        optimizer = model.optimizer
        with self._strategy.scope():
            _build_optimizer(optimizer, model.trainable_variables)
            generators = self._generators() if is_keras2 else []
        variables = {id(tensor): tensor for tensor in map(_tensor, model.variables)}
        # Keras 2 counts a metric's variables among the model's.
        for tensor in self._metric_variables():
            variables.pop(id(tensor), None)
        own = [each for each in variables.values() if _may_differ(each, is_keras2)]
        shared = [each for each in variables.values() if not _may_differ(each, is_keras2)]
        # A replica that gets no example of an epoch's last batch draws no numbers.
        own += [generator.state for generator in generators if hasattr(generator.state, "values")]
        self._finite = [each for each in shared if each.dtype.is_floating]
        parts = _optimizer_parts(optimizer, is_keras2)
        more = optimizer.checkpointing() if hasattr(optimizer, "checkpointing") else {}
        self._hooks = [more]
        if own:
            of_layers = ReplicaState(self._strategy, own)
            parts["own"] = of_layers.whole
            self._hooks.append({"before_save": of_layers.gather, "after_restore": of_layers.spread})
        self._checkpoint = tf.train.Checkpoint(
            variables=shared,
            generators=generators,
            **parts,
            **{f"more_{k}": v for k, v in more.get("more", {}).items()},
        )
        self.layout = _layout(model.weights)
        self._metrics: ReplicaState | None = None
        self._metrics_checkpoint: tf.train.Checkpoint | None = None

    def is_finite(self) -> bool:
        """Whether all weights are."""
        return all(bool(tf.reduce_all(tf.math.is_finite(each))) for each in self._finite)

    def save(self, folder: str, *, with_metrics: bool) -> None:
        """Writes the state into a folder; every worker of a cluster calls it, each with a folder of its own."""
        with self._hooked():
            self._checkpoint.write(os.path.join(folder, _STATE))
        if with_metrics:
            metrics, checkpoint = self._metrics_state()
            metrics.gather()
            checkpoint.write(os.path.join(folder, _METRICS))

    @contextlib.contextmanager
    def _hooked(self) -> Any:
        self._call("before_save")
        try:
            yield
        finally:
            self._call("after_save")

    def restore(self, folder: str) -> None:
        """Reads the state, but for the metrics.

        Raises:
          ValueError: it is of another model or optimizer.
        """
        try:
            status = self._checkpoint.read(plain(os.path.join(folder, _STATE)))
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            reason = str(getattr(error, "message", None) or error).strip().splitlines()[0]
            raise InputError(
                f"ExactResume: {folder} is of another model or optimizer: {reason} Build and compile the model as the "
                "training did that wrote it, or give another directory."
            ) from None
        self._call("after_restore")

    def restore_metrics(self, folder: str) -> bool:
        """Reads the metrics; returns whether they were saved and are those of the model."""
        metrics, checkpoint = self._metrics_state()
        try:
            status = checkpoint.read(plain(os.path.join(folder, _METRICS)))
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError):
            return False
        metrics.spread()
        return True

    def _metrics_state(self) -> tuple[ReplicaState, tf.train.Checkpoint]:
        if self._metrics is None or self._metrics_checkpoint is None:
            self._metrics = ReplicaState(self._strategy, self._metric_variables())
            self._metrics_checkpoint = tf.train.Checkpoint(values=self._metrics.whole)
        return self._metrics, self._metrics_checkpoint

    def _metric_variables(self) -> list[tf.Variable]:
        found = {id(tensor): tensor for metric in self._model.metrics for tensor in map(_tensor, metric.variables)}
        return list(found.values())

    def _generators(self) -> list[tf.random.Generator]:
        names = layers_without_generator(self._model)
        if names:
            raise InputError(
                f"ExactResume: the layers {', '.join(names[:5])} draw random numbers from operations whose state no "
                "checkpoint holds. Call tf_keras.backend.experimental.enable_tf_random_generator() before the model is "
                "made."
            )
        return random_generators(self._model)

    def _call(self, name: str) -> None:
        for hooks in self._hooks:
            if name in hooks:
                hooks[name]()


def _may_differ(variable: tf.Variable, is_keras2: bool) -> bool:
    """Whether replicas may have values of their own.

    Keras 3 declares statistics of batch normalisation and the state of generators as weights that are the same
    everywhere, and each replica assigns its own.
    """
    return is_of_replicas(variable) or (not is_keras2 and not variable.trainable and hasattr(variable, "values"))


def _build_optimizer(optimizer: Any, variables: Sequence[Any]) -> None:
    if hasattr(optimizer, "build"):
        if not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
            optimizer.build(variables)
    elif hasattr(optimizer, "_create_all_weights"):
        # tf_keras.optimizers.legacy.
        optimizer._create_all_weights(variables)


def _optimizer_parts(optimizer: Any, is_keras2: bool) -> dict[str, Any]:
    """What a checkpoint holds of an optimizer, by name."""
    parts: dict[str, Any] = {}
    is_ours = hasattr(optimizer, "named_state")
    if is_keras2 or type(optimizer).__module__.startswith("tfbigbatch."):
        parts["optimizer"] = optimizer
    if not is_keras2 and not is_ours:
        # Keras 3 tracks some of its optimizers' variables in lists of its own.
        parts["optimizer_variables"] = [_tensor(each) for each in optimizer.variables]
    inner = optimizer
    while getattr(inner, "inner_optimizer", None) is not None:
        inner = inner.inner_optimizer
    rate = getattr(inner, "_learning_rate", None)
    if isinstance(_tensor(rate), tf.Variable):
        parts["learning_rate"] = _tensor(rate)
    elif isinstance(rate, tf.Module):
        parts["schedule"] = list(rate.variables)
    return parts


def _layout(variables: Sequence[Any]) -> list[list[Any]]:
    """[name, shape, dtype] of each, without Keras' running numbers."""
    names = canonical([getattr(each, "path", each.name.split(":")[0]) for each in variables])
    tensors = [_tensor(each) for each in variables]
    return [[name, each.shape.as_list(), each.dtype.name] for name, each in zip(names, tensors)]


def _tensor(variable: Any) -> Any:
    """The tf.Variable within a variable of Keras 3."""
    inner = getattr(variable, "value", None)
    is_keras3 = inner is not None and not callable(inner) and type(variable).__module__.startswith("keras.")
    return inner if is_keras3 else variable
