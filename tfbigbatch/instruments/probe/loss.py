"""A model's loss on a probe, at its current or other weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.instruments.probe.model import ProbeModel, mean_over, untouched


class ProbeLoss:
    """The mean loss of a compiled model of Keras 2 or 3 on the micro-batches of a probe; see `ProbeModel`.

    Args:
      model: compiled, and trained for at least one step.
      micro_batches: from `micro_batches_of`.
      training: mode of the forward pass.
    """

    def __init__(self, model: Any, micro_batches: Any, training: bool) -> None:
        self._strategy = model.distribute_strategy
        self._micro_batches = micro_batches
        self._model = ProbeModel(model, training)
        self._measure = self._model.compiled(self._on_one_replica)

    def __call__(self) -> float:
        """The loss at the current weights."""
        return self._measure(self._micro_batches).numpy().item()

    def at(self, variables: Sequence[tf.Variable], values: Sequence[Any]) -> float:
        """The loss with other values in some tf.Variables of the model, which are restored exactly."""
        with self._strategy.scope(), untouched(variables):
            for variable, value in zip(variables, values):
                variable.assign(value)
            return self()

    def _on_one_replica(self, micro_batches: Any) -> tf.Tensor:
        def of_one(micro_batch: Any) -> list[tf.Tensor]:
            return [self._model.loss(micro_batch)]

        return mean_over(micro_batches, of_one, [[]])[0]
