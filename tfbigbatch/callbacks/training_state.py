"""All variables of a `fit`: weights, optimizers, random generators, metrics, and what else its objects hold."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.callbacks.generators import layers_without_generator, random_generators
from tfbigbatch.callbacks.reachable import Found, found_from, handles
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.checkpointing import ShardedVariable, canonical
from tfbigbatch.optimizers.replica_state import ReplicaState, is_of_replicas
from tfbigbatch.utils.tensorflow_paths import literal_path

_STATE, _METRICS = "state", "metrics"


class TrainingState:
    """The variables of a `fit`, as they are saved and restored.

    Metrics, generators and the statistics of batch normalisation may differ between replicas, and are saved for each
    replica.

    Args:
      model: compiled and built, of Keras 2 or 3.
      is_keras2: which of the two.
      roots, left_out: what else is searched for state, as `reachable.found_from` takes it.

    Attributes:
      layout: [name, shape, dtype] of the model's weights, and then of the variables that neither the model nor an
        optimizer lists, which have paths as names.
      built_for: of each optimizer beside the model's own the paths of the variables that it trains; None before it is
        built.

    Raises:
      ValueError: a layer draws random numbers from operations whose state cannot be saved.
    """

    def __init__(
        self,
        model: Any,
        *,
        is_keras2: bool,
        roots: Mapping[str, tuple[Any, bool]] | None = None,
        left_out: Any = None,
    ) -> None:
        self._model, self._is_keras2, self._roots, self._left_out = model, is_keras2, dict(roots or {}), left_out
        self._strategy = model.distribute_strategy
        with self._strategy.scope():
            _build_optimizer(model.optimizer, model.trainable_variables)
            generators = self._generators() if is_keras2 else []
        self._found = self._search()
        self._paths = {handles(each)[0]: path for path, each in self._found.variables.items()}
        parts: dict[str, Any] = {"generators": generators}
        self._hooks: list[Mapping[str, Any]] = []
        for path, each in self._found.optimizers.items():
            if _is_built(each):
                self._add_optimizer(parts, "" if each is model.optimizer else f"{path}/", each)
        metrics = {id(tensor) for tensor in self._metric_variables()}
        # Keras 2 counts a metric's variables among the model's.
        listed = {id(tensor): tensor for tensor in map(_tensor, model.variables) if id(tensor) not in metrics}
        here = {*_covered(parts), *(handles(tensor)[0] for tensor in [*listed.values(), *self._metric_variables()])}
        others = {path: each for path, each in self._found.variables.items() if handles(each)[0] not in here}
        may_differ = [each for each in listed.values() if _may_differ(each, is_keras2)]
        shared = [each for each in listed.values() if not _may_differ(each, is_keras2)]
        self._finite = [each for each in shared if each.dtype.is_floating]
        own = [*may_differ, *(each for each in others.values() if hasattr(each, "values"))]
        shared += [each for each in others.values() if not hasattr(each, "values")]
        # A replica that gets no example of an epoch's last batch draws no numbers.
        own += [generator.state for generator in generators if hasattr(generator.state, "values")]
        if own:
            layer_state = ReplicaState(self._strategy, own)
            parts["own"] = layer_state.whole
            self._hooks.append({"before_save": layer_state.gather, "after_restore": layer_state.spread})
        self._checkpoint = tf.train.Checkpoint(variables=shared, tables=list(self._found.tables.values()), **parts)
        self._saved = {handle for each in [*shared, *own] for handle in handles(each)} | _covered(parts)
        names = canonical([getattr(each, "path", each.name.split(":")[0]) for each in model.weights])
        named = [*zip(names, map(_tensor, model.weights)), *others.items()]
        self.layout = [[name, each.shape.as_list(), each.dtype.name] for name, each in named]
        self.built_for = self._optimizers(self._found)
        self._metrics: ReplicaState | None = None
        self._metrics_checkpoint: tf.train.Checkpoint | None = None

    def _search(self) -> Found:
        return found_from({"model": (self._model, bool(self._model.run_eagerly)), **self._roots}, self._left_out)

    def _add_optimizer(self, parts: dict[str, Any], prefix: str, optimizer: Any) -> None:
        wrapper = optimizer
        while not hasattr(wrapper, "checkpointing") and getattr(wrapper, "inner_optimizer", None) is not None:
            wrapper = wrapper.inner_optimizer
        more = wrapper.checkpointing() if hasattr(wrapper, "checkpointing") else {}
        named = {f"more_{name}": each for name, each in more.get("more", {}).items()}
        parts.update({prefix + name: each for name, each in _optimizer_parts(optimizer, self._is_keras2).items()})
        parts.update({prefix + name: each for name, each in named.items()})
        self._hooks.append(more)

    def _optimizers(self, found: Found) -> dict[str, list[str] | None]:
        """The optimizers of `built_for`."""
        variables = list(found.variables.values())
        others = {path: each for path, each in found.optimizers.items() if each is not self._model.optimizer}
        return {
            path: [self._paths.get(handles(variable)[0], "") for variable in _trained_by(each, variables)]
            if _is_built(each)
            else None
            for path, each in others.items()
        }

    def build_optimizers(self, built_for: Mapping[str, list[str] | None]) -> None:
        """Builds the optimizers that had been built where a snapshot was saved, for the same variables.

        Raises:
          ValueError: one of them is not here, or a variable that it trained.
        """
        for path, trained in built_for.items():
            optimizer = self._found.optimizers.get(path)
            missing = [each for each in trained or () if each not in self._found.variables]
            if optimizer is None or missing:
                raise InputError(
                    f"ExactResume: the snapshot has the state of {path}, and here is no {(missing or [path])[0]}. Make "
                    "the model and the callbacks as the training did that wrote it, and build what is built by its "
                    "first call before fit."
                )
            if trained and not _is_built(optimizer):
                with self._strategy.scope():
                    optimizer.build([self._found.variables[each] for each in trained])

    def is_current(self) -> bool:
        """True if the objects hold the same as when this was made."""
        found = self._search()
        return found.variables.keys() == self._found.variables.keys() and self._optimizers(found) == self.built_for

    def holds(self, handle: int) -> bool:
        """True if a variable is saved, by a number of `reachable.handles`."""
        return handle in self._saved or any(handle in handles(each) for each in self._metric_variables())

    def is_finite(self) -> bool:
        """True if all weights are finite."""
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
            _read_whole(self._checkpoint, os.path.join(folder, _STATE))
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
            _read_whole(checkpoint, os.path.join(folder, _METRICS))
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


def _read_whole(checkpoint: tf.train.Checkpoint, prefix: str) -> None:
    status = checkpoint.read(literal_path(prefix))
    status.assert_existing_objects_matched()
    status.assert_consumed()


def _may_differ(variable: tf.Variable, is_keras2: bool) -> bool:
    """True if replicas may have values of their own.

    Keras 3 declares statistics of batch normalisation and the state of generators as weights that are the same
    everywhere, and each replica assigns its own.
    """
    return is_of_replicas(variable) or (not is_keras2 and not variable.trainable and hasattr(variable, "values"))


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


def _trained_by(optimizer: Any, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
    """The variables that an optimizer was built for, in its order."""
    inner = optimizer
    while getattr(inner, "inner_optimizer", None) is not None:
        inner = inner.inner_optimizer
    if hasattr(inner, "_trainable_variables"):
        return [_tensor(each) for each in inner._trainable_variables]
    places = getattr(inner, "_index_dict", {})
    known = [each for each in variables if inner._var_key(each) in places]
    return sorted(known, key=lambda each: places[inner._var_key(each)])


def _covered(parts: Mapping[str, Any]) -> set[int]:
    """The variables that a checkpoint of `parts` holds, by the numbers of `reachable.handles`."""
    checkpoint = tf.train.Checkpoint(**parts)
    tracked = tf.train.TrackableView(checkpoint).descendants()
    found = [each.variable if isinstance(each, ShardedVariable) else each for each in tracked]
    return {handle for each in found if isinstance(each, tf.Variable) for handle in handles(each)}


def _optimizer_parts(optimizer: Any, is_keras2: bool) -> dict[str, Any]:
    """The parts of an optimizer in a checkpoint, by name."""
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


def _tensor(variable: Any) -> Any:
    """The tf.Variable within a variable of Keras 3."""
    inner = getattr(variable, "value", None)
    is_keras3 = inner is not None and not callable(inner) and type(variable).__module__.startswith("keras.")
    return inner if is_keras3 else variable
