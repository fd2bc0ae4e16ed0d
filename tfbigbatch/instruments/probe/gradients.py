"""Norms of a model's gradients on a probe, without side effects."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.instruments.probe.model import ProbeModel, mean_over


class ProbeGradients:
    """Measures a compiled model of Keras 2 or 3 on the micro-batches of a probe; see `ProbeModel`.

    Costs a forward and a backward pass over the probe, and one more copy of the gradients.

    Args:
      model: compiled, and trained for at least one step.
    """

    def __init__(self, model: Any) -> None:
        self._model = ProbeModel(model)
        self._measure = self._model.compiled(self._on_one_replica)

    def __call__(self, micro_batches: Any) -> tuple[float, float]:
        """The mean |G_b|^2 of micro-batches from `micro_batches_of`, and |G_B|^2 of the whole probe."""
        small, large = self._measure(micro_batches)
        return small.numpy().item(), sum(large.numpy().tolist())

    def _on_one_replica(self, micro_batches: Any) -> tuple[tf.Tensor, tf.Tensor]:
        def of_one(micro_batch: Any) -> list[tf.Tensor]:
            _, gradients = self._model.loss_and_gradients(micro_batch)
            return [tf.add_n(_squares(gradients)), *gradients]

        shapes = [[], *(variable.shape for variable in self._model.variables)]
        small, *gradients = mean_over(micro_batches, of_one, shapes)
        return small, tf.stack(_squares(gradients))


def _squares(gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.reduce_sum(tf.square(gradient)) for gradient in gradients]
