"""Clipping of gradients that are summed over replicas and micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers.accumulation import mean_of
from tfbigbatch.optimizers.base import Adapter, Rule
from tfbigbatch.optimizers.layers import Layers
from tfbigbatch.optimizers.replica_state import regrouped


class Clipping:
    """Clips by the global norm, or each layer by norm or by value; normalises first where the rule says so.

    Every replica clips the same gradient, so that 1 and N replicas end with the same weights.

    Args:
      rule: says whether all gradients are divided by their global norm first.
      adapter: the Keras optimizer, with its limits.
      layers: of the optimizer.
      accumulates: whether the gradients of a step are accumulators, each with the owner of its layer.
    """

    def __init__(self, rule: Rule, adapter: Adapter, layers: Layers, accumulates: bool) -> None:
        self._rule = rule
        self._adapter = adapter
        self._layers = layers
        self._accumulates = accumulates

    def factor_of_replicas(
        self, strategy: tf.distribute.Strategy, gradients: Sequence[Any], variables: Sequence[Any], micro_batches: Any
    ) -> Any:
        """The factor of all gradients, on each replica; None where nothing is scaled."""
        if not self._rule.pre_normalize and not self._adapter.global_clipnorm:
            return None
        if self._layers.shards is not None and self._accumulates:
            norm = self._layers.shards.global_norm(self._layers.owners(variables), gradients)
            return self._factor(norm, micro_batches)
        by_replica = list(zip(*(strategy.experimental_local_results(each) for each in gradients)))
        if not self._adapter.replicas_differ:
            by_replica = by_replica[:1]
        return regrouped([self._factor(_global_norm(each), micro_batches) for each in by_replica])

    def _factor(self, norm: tf.Tensor, micro_batches: Any) -> tf.Tensor:
        """The factor of global clipping or pre-normalisation; `norm` is that of sums over the micro-batches."""
        norm = mean_of(1.0, micro_batches) * norm
        if self._rule.pre_normalize:
            return tf.where(norm > 0.0, 1.0 / norm, 1.0)
        limit = self._adapter.global_clipnorm
        assert limit is not None
        # A gradient that is not finite makes all weights so, where it is noticed, rather than being scaled to zero.
        return limit / tf.maximum(norm, limit) + (norm - norm)

    def clipped(self, gradient: tf.Tensor, factor: tf.Tensor | None) -> tf.Tensor:
        """A layer's gradient, multiplied by the factor and clipped by itself."""
        if factor is not None:
            gradient *= tf.cast(factor, gradient.dtype)
        if self._adapter.clipnorm:
            return tf.clip_by_norm(gradient, self._adapter.clipnorm)
        if self._adapter.clipvalue:
            return tf.clip_by_value(gradient, -self._adapter.clipvalue, self._adapter.clipvalue)
        return gradient


def _global_norm(gradients: Sequence[Any]) -> tf.Tensor:
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])
