"""All variables of a `fit`: weights, optimizers, random generators, metrics, and what else its objects hold."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.callbacks.reachable import Found, found_from, handles
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.checkpointing import ShardedVariable, canonical
from tfbigbatch.optimizers.replica_state import ReplicaState, is_of_replicas
from tfbigbatch.optimizers.tensorflow import tensor_variable
from tfbigbatch.utils.tensorflow_paths import literal_path

_STATE, _METRICS = "state", "metrics"


class TrainingState:
    """The variables of a `fit`, as they are saved and restored.

    Metrics, generators and the statistics of batch normalisation are saved for each replica: Keras 3 declares the
    latter two as weights that are the same everywhere, and each replica assigns its own; one that gets no example of an
    epoch's last batch draws no numbers.

    Args:
      model: compiled and built, of Keras 2 or 3.
      roots: what else is searched for state, as `reachable.found_from` takes it.
      left_out: an object that is not searched.

    Attributes:
      layout: [shape, dtype] by name of the model's variables, and then of those that neither the model nor an
        optimizer lists, which have paths as names.
    """

    def __init__(
        self, model: Any, *, roots: Mapping[str, tuple[Any, bool]] | None = None, left_out: Any = None
    ) -> None:
        self._model, self._roots, self._left_out = model, roots or {}, left_out
        self._strategy = model.distribute_strategy
        with self._strategy.scope():
            _build_optimizer(model.optimizer, model.trainable_variables)
            _make_generators(model)
        named = self._named()
        self._found = found = self._search()
        everything = {**found.variables, **found.of_optimizers}
        parts, self._hooks = _saved_by_themselves(found.optimizers)
        covered = _covered(parts)
        free = {path: each for path, each in everything.items() if handles(each)[0] not in covered}
        same = {*found.of_optimizers, *(path for path, each in named.items() if each.trainable)}
        own = {
            path: each
            for path, each in free.items()
            if hasattr(each, "values") and (is_of_replicas(each) or path not in same)
        }
        shared = {path: each for path, each in free.items() if path not in own}
        of_replicas = ReplicaState(self._strategy, list(own.values()))
        self._hooks.append({"before_save": of_replicas.gather, "after_restore": of_replicas.spread})
        self._checkpoint = tf.train.Checkpoint(
            variables=shared,
            own=dict(zip(own, of_replicas.whole)),
            tables=list(found.tables.values()),
            optimizers=parts,
        )
        self._saved = {handle for each in free.values() for handle in handles(each)} | covered
        self._finite = [shared[path] for path in named if path in shared and shared[path].dtype.is_floating]
        self.layout = {
            path: [each.shape.as_list(), each.dtype.name] for path, each in found.variables.items() if path in free
        }

    def _named(self) -> dict[str, tf.Variable]:
        """The model's variables by names that the same model has in every process."""
        metrics = set(map(id, self._metric_variables()))
        # Keras 2 counts a metric's variables among the model's.
        variables = [each for each in self._model.variables if id(tensor_variable(each)) not in metrics]
        names = canonical([getattr(each, "path", each.name.split(":")[0]) for each in variables])
        return dict(zip(names, map(tensor_variable, variables)))

    def _search(self) -> Found:
        roots = {"model": (self._model, bool(self._model.run_eagerly)), **self._roots}
        return found_from(roots, left_out=[self._left_out, *self._metric_variables()], named=self._named())

    def made_since(self) -> dict[str, tf.Variable]:
        """The variables that the objects hold by now and did not when this was made, by the paths to them."""
        before, now = (
            {handles(each)[0]: (path, each) for path, each in {**found.variables, **found.of_optimizers}.items()}
            for found in (self._found, self._search())
        )
        return dict(now[handle] for handle in now.keys() - before.keys())

    def holds(self, handle: int) -> bool:
        """True if a variable is saved, by a number of `reachable.handles`."""
        return handle in self._saved or any(handle in handles(each) for each in self._metric_variables())

    def is_finite(self) -> bool:
        """True if all weights are finite."""
        return all(bool(tf.reduce_all(tf.math.is_finite(each))) for each in self._finite)

    def save(self, folder: str, *, with_metrics: bool) -> None:
        """Writes the state into a folder; every worker of a cluster calls it, each with a folder of its own."""
        self._call("before_save")
        self._checkpoint.write(os.path.join(folder, _STATE))
        if with_metrics:
            metrics, checkpoint = self._metrics
            metrics.gather()
            checkpoint.write(os.path.join(folder, _METRICS))

    def restore(self, folder: str) -> None:
        """Reads the state, but for the metrics.

        Raises:
          ValueError: it is of another model or optimizer.
        """
        reason = _unread(self._checkpoint, os.path.join(folder, _STATE))
        if reason is not None:
            raise InputError(
                f"ExactResume: {folder} is of another model or optimizer: {reason} Build and compile the model as the "
                "training did that wrote it, or give another directory."
            )
        self._call("after_restore")

    def restore_metrics(self, folder: str) -> bool:
        """Reads the metrics; returns whether they were saved and are those of the model."""
        metrics, checkpoint = self._metrics
        if _unread(checkpoint, os.path.join(folder, _METRICS)) is not None:
            return False
        metrics.spread()
        return True

    @functools.cached_property
    def _metrics(self) -> tuple[ReplicaState, tf.train.Checkpoint]:
        # Late: Keras makes some of them in the first step.
        state = ReplicaState(self._strategy, self._metric_variables())
        return state, tf.train.Checkpoint(values=state.whole)

    def _metric_variables(self) -> list[tf.Variable]:
        found = {
            id(tensor): tensor for metric in self._model.metrics for tensor in map(tensor_variable, metric.variables)
        }
        return list(found.values())

    def _call(self, name: str) -> None:
        for hooks in self._hooks:
            if name in hooks:
                hooks[name]()


def _unread(checkpoint: tf.train.Checkpoint, prefix: str) -> str | None:
    """Reads a checkpoint, and returns None, or the reason why it is not that of the same objects."""
    try:
        status = checkpoint.read(literal_path(prefix))
        status.assert_existing_objects_matched()
        status.assert_consumed()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        return str(getattr(error, "message", None) or error).strip().splitlines()[0]
    return None


def _make_generators(model: Any) -> None:
    """Makes the generators of Keras 2's layers, which come with the first numbers that they draw."""
    for module in getattr(model, "submodules", ()):
        # Private in tf_keras, and the only access to a layer's generator.
        source: Any = getattr(module, "_random_generator", None)
        if hasattr(source, "_maybe_init"):
            source._maybe_init()


def _build_optimizer(optimizer: Any, variables: Sequence[Any]) -> None:
    if hasattr(optimizer, "build"):
        if not _is_built(optimizer):
            optimizer.build(variables)
    elif hasattr(optimizer, "_create_all_weights"):
        # tf_keras.optimizers.legacy.
        optimizer._create_all_weights(variables)


def _is_built(optimizer: Any) -> bool:
    # Those of tf_keras.optimizers.legacy make their variables one by one, and a checkpoint restores them so.
    return not hasattr(optimizer, "build") or bool(getattr(optimizer, "built", getattr(optimizer, "_built", False)))


def _inwards(optimizer: Any) -> Iterator[Any]:
    """An optimizer, and those that it wraps."""
    while optimizer is not None:
        yield optimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)


def _saved_by_themselves(optimizers: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    """The parts of a checkpoint of the optimizers that say what is saved of them, and what is called around a save.

    Processes that share the work of an optimizer save it together; wrappers have weights of each replica.
    """
    parts: dict[str, Any] = {}
    hooks: list[Mapping[str, Any]] = []
    for path, optimizer in optimizers.items():
        for depth, each in enumerate(_inwards(optimizer)):
            if _is_built(optimizer) and (hasattr(each, "named_state") or hasattr(each, "checkpointing")):
                more = each.checkpointing() if hasattr(each, "checkpointing") else {}
                parts[path + ".inner_optimizer" * depth] = {"optimizer": each, **more.get("more", {})}
                hooks.append(more)
    return parts, hooks


def _covered(parts: Mapping[str, Any]) -> set[int]:
    """The variables that a checkpoint of `parts` holds, by the numbers of `reachable.handles`."""
    checkpoint = tf.train.Checkpoint(parts=parts)  # The view does not keep it.
    tracked = tf.train.TrackableView(checkpoint).descendants()
    found = [each.variable if isinstance(each, ShardedVariable) else each for each in tracked]
    return {handle for each in found if isinstance(each, tf.Variable) for handle in handles(each)}
