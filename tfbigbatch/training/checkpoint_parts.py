"""Further state in a run's checkpoints: moving averages of the weights, and the statistics of every replica.

Of averages (Polyak averaging; `use_ema` of Keras' optimizers): training goes on with the weights; an evaluation, and
what is loaded from a checkpoint, has the averages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers.replica_state import ReplicaState, is_of_replicas
from tfbigbatch.runs.checkpoint_files import AVERAGES
from tfbigbatch.training.checkpoints import STATISTICS, CheckpointPart


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


def replica_statistics(strategy: tf.distribute.Strategy, weights: Sequence[tf.Variable]) -> list[CheckpointPart]:
    """The checkpoint part with every replica's statistics of batch normalisation, where several replicas have any.

    Each replica moves them by its own part of the batch. A checkpoint of the network holds their mean, which other
    numbers of replicas begin with: they end with the same weights, but with statistics that are rounded otherwise.

    Args:
      strategy: of the replicas.
      weights: of the network.
    """
    own = [variable for variable in weights if is_of_replicas(variable)]
    if strategy.num_replicas_in_sync == 1 or not own:
        return []
    state = ReplicaState(strategy, own)
    return [CheckpointPart({STATISTICS: state.whole}, before_save=state.gather, after_restore=state.spread)]
