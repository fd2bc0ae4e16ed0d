"""Moving averages of the weights (Polyak averaging; `use_ema` of Keras' optimizers) in a run.

Training goes on with the weights; an evaluation, and what is loaded from a checkpoint, has the averages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.runs.checkpoint_files import AVERAGES
from tfbigbatch.training.checkpoints import CheckpointPart


class WeightAverages:
    """The averages that an optimizer keeps of a network's trainable variables, and their exchange with these.

    Args:
      optimizer: built on `variables`, with use_ema; Keras' `fit` then no longer puts the averages into the model at
        its end, as the trainer calls it for parts of a run.
      variables: the network's trainable ones.
    """

    def __init__(self, optimizer: tf_keras.optimizers.Optimizer, variables: Sequence[tf.Variable]) -> None:
        optimizer.finalize_variable_values = lambda var_list: None
        self._variables = list(variables)
        # Private in tf_keras, and the only access to the averages.
        self._averages = list(_innermost(optimizer)._model_variables_moving_average)
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
        """The averages in a checkpoint; the network has its weights there, also where it is saved in an evaluation."""
        in_place = [False]

        def before_save() -> None:
            in_place[0] = self._weights is not None
            if in_place[0]:
                self._put_weights()

        def after_save() -> None:
            if in_place[0]:
                self._put_averages()

        return CheckpointPart({AVERAGES: self._averages}, before_save=before_save, after_save=after_save)

    def _put_averages(self) -> None:
        self._weights = [tf.identity(variable) for variable in self._variables]
        for variable, average in zip(self._variables, self._averages):
            variable.assign(tf.cast(tf.identity(average), variable.dtype))

    def _put_weights(self) -> None:
        weights, self._weights = self._weights or [], None
        for variable, value in zip(self._variables, weights):
            variable.assign(value)


def weight_averages(
    optimizer: tf_keras.optimizers.Optimizer, variables: Sequence[tf.Variable]
) -> WeightAverages | None:
    """The WeightAverages of a built optimizer with use_ema; None for another."""
    return WeightAverages(optimizer, variables) if getattr(optimizer, "use_ema", False) else None


def _innermost(optimizer: Any) -> Any:
    """The optimizer inside of loss scaling and wrappers."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer
