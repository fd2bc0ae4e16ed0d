"""Moving averages of a network's weights (Polyak averaging; `use_ema` of Keras' optimizers).

Training goes on with the weights; an evaluation, and what is loaded from a checkpoint, has the averages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.probe.model import tensor_variable
from tfbigbatch.runs import weights
from tfbigbatch.runs.checkpoint_files import AVERAGES
from tfbigbatch.training.checkpoints import CheckpointPart


class WeightAverages:
    """The averages that an optimizer keeps of a network's trainable variables, and their exchange with these.

    Args:
      network: keras.Model, compiled, with an optimizer with use_ema that is built.
    """

    def __init__(self, network: keras.Model) -> None:
        # Private in Keras, and the only access to the averages.
        of_variables = zip(network.trainable_variables, innermost(network.optimizer)._model_variables_moving_average)
        averages = {id(variable): tensor_variable(average) for variable, average in of_variables}
        trained = {path: each for path, each in weights.by_path(network).items() if id(each) in averages}
        self._by_path = {path: averages[id(variable)] for path, variable in trained.items()}
        self._variables = [tensor_variable(variable) for variable in trained.values()]
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
        """The averages in a checkpoint; the network has its weights there, also where it is saved in an evaluation."""
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
        weights, self._weights = self._weights or [], None
        for variable, value in zip(self._variables, weights):
            variable.assign(value)


def weight_averages(network: keras.Model) -> WeightAverages | None:
    """The WeightAverages of a compiled network whose optimizer has use_ema; None for another."""
    return WeightAverages(network) if getattr(innermost(network.optimizer), "use_ema", False) else None
