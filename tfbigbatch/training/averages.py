"""Moving averages of the weights (Polyak averaging; `use_ema` of Keras' optimizers) in a run.

Training goes on with the weights; an evaluation, and what is loaded from a checkpoint, has the averages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.run_directory import weights
from tfbigbatch.run_directory.checkpoint_files import AVERAGES
from tfbigbatch.training.checkpoints import CheckpointPart


class WeightAverages:
    """The averages that a network's optimizer keeps of its trainable variables, and their exchange with these.

    Args:
      network: keras.Model, compiled with an optimizer that is built, with use_ema.
    """

    def __init__(self, network: Any) -> None:
        # Private in Keras, and the only access to the averages.
        averages = innermost(network.optimizer)._model_variables_moving_average
        of_variable = {id(variable): each.value for variable, each in zip(network.trainable_variables, averages)}
        trained = {path: each for path, each in weights.by_path(network).items() if id(each) in of_variable}
        self._by_path = {path: of_variable[id(variable)] for path, variable in trained.items()}
        self._variables = [variable.value for variable in trained.values()]
        self._averages = list(self._by_path.values())
        self._weights: list[tf.Tensor] | None = None

    def restart(self) -> None:
        """Sets the averages to the weights, as after other weights were read."""
        for average, variable in zip(self._averages, self._variables):
            average.assign(tf.cast(tf.identity(variable), average.dtype))

    @contextlib.contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """A context in which the network has the averages; then it has the same bits as before."""
        self._put_averages()
        try:
            yield
        finally:
            self._put_weights()

    def checkpoint_part(self) -> CheckpointPart:
        """The averages by path in a checkpoint, where the network has its weights, also if saved in an evaluation."""
        in_place = [False]

        def before_save() -> None:
            in_place[0] = self._weights is not None
            if in_place[0]:
                self._put_weights()

        def after_save() -> None:
            if in_place[0]:
                self._put_averages()

        return CheckpointPart({AVERAGES: self._by_path}, before_save=before_save, after_save=after_save)

    def _put_averages(self) -> None:
        self._weights = [tf.identity(variable) for variable in self._variables]
        for variable, average in zip(self._variables, self._averages):
            variable.assign(tf.cast(tf.identity(average), variable.dtype))

    def _put_weights(self) -> None:
        values, self._weights = self._weights or [], None
        for variable, value in zip(self._variables, values):
            variable.assign(value)


def weight_averages(network: Any) -> WeightAverages | None:
    """The WeightAverages of a compiled network whose optimizer has use_ema; None for another."""
    return WeightAverages(network) if getattr(innermost(network.optimizer), "use_ema", False) else None


def optimizer_parts(optimizer: Any) -> list[CheckpointPart]:
    """What a checkpoint has of an optimizer beside its variables: state of each replica, as Adasum's moments."""
    # Inside of loss scaling; empty where all replicas have the same.
    while not hasattr(optimizer, "checkpointing"):
        optimizer = getattr(optimizer, "inner_optimizer", None)
        if optimizer is None:
            return []
    state = optimizer.checkpointing()
    return [CheckpointPart(**state)] if state else []
