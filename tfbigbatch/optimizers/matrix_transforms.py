"""The part of a step that is a function of whole matrices: the replicas share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfbigbatch.optimizers import sharing
from tfbigbatch.optimizers.accumulation import mean_of
from tfbigbatch.optimizers.base import Adapter, MatrixRule
from tfbigbatch.optimizers.layers import Layers, arithmetic_dtype
from tfbigbatch.optimizers.replica_state import regrouped

_Batches = list[tf.Tensor]


class MatrixTransforms:
    """The transform of a `MatrixRule` on the layers' matrices, such as orthogonalised momentum.

    Args:
      rule: the formula and its hyperparameters.
      adapter: the Keras optimizer.
      layers: of the optimizer.
      clipped: function of a layer's gradient and the factor of all that gives the clipped gradient.
    """

    def __init__(self, rule: MatrixRule, adapter: Adapter, layers: Layers, clipped: Callable[[Any, Any], Any]) -> None:
        self._rule = rule
        self._adapter = adapter
        self._layers = layers
        self._clipped = clipped

    def transformed(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        factor: Any,
        *,
        step: tf.Tensor,
        micro_batches: Any,
    ) -> list[list[Any] | None]:
        """The transformed batches of each layer on all replicas, by the replicas together.

        Args:
          strategy: of the step.
          gradients: of the variables, summed over micro-batches.
          variables: of the step.
          factor: of clipping.
          step: number of the step, from 1.
          micro_batches: number of them in the gradients.

        Returns:
          For each variable its batches; None for a vector, and where another process has the layer.
        """
        counts: list[int | None] = []
        batches: list[_Batches] = []
        kept: list[_Batches] = []
        owners: list[int | None] = []
        for variable, gradient in zip(variables, gradients):
            of_replicas = self._before_on_replicas(strategy, variable, gradient, factor, micro_batches)
            counts.append(len(of_replicas[0][0]) if of_replicas else None)
            owners += [self._layers.of(variable).owner] * (counts[-1] or 0)
            batches.extend(map(list, zip(*(each for each, _ in of_replicas))))
            kept.extend(map(list, zip(*(each for _, each in of_replicas))))
        if not batches:
            return [None] * len(variables)
        outcomes = iter(self._when_due(step, lambda: self._by_owners(strategy, batches, owners), kept))
        return [None if count is None else [regrouped(next(outcomes)) for _ in range(count)] for count in counts]

    def _by_owners(
        self, strategy: tf.distribute.Strategy, batches: Sequence[_Batches], owners: Sequence[int | None]
    ) -> list[_Batches]:
        """The transformed batches; where layers have owners, each on the device of its own."""
        # With gradients of their own, the replicas have nothing in common to share, and layers with an owner neither.
        alone = self._adapter.replicas_differ or self._layers.shards is not None
        outcomes: list[_Batches] = [[] for _ in batches]
        for owner in dict.fromkeys(owners):
            own = [index for index, each in enumerate(owners) if each == owner]
            found = sharing.map_matrices(
                self._rule.transform,
                [batches[index] for index in own],
                flops=self._rule.transform_flops,
                strategy=strategy,
                share=False if alone else self._rule.share_work,
            )
            for index, transformed in zip(own, found):
                outcomes[index] = transformed
        return outcomes

    def _when_due(self, step: tf.Tensor, transform: Callable[[], Any], kept: Any) -> Any:
        """The transformed batches; in steps between those of `transform_every` what was kept."""
        every = self._rule.transform_every()
        if every == 1:
            return transform()
        is_due = tf.equal(tf.math.floormod(step - 1.0, float(every)), 0.0)
        return tf.cond(is_due, transform, lambda: kept)

    def _before_on_replicas(
        self, strategy: tf.distribute.Strategy, variable: Any, gradient: Any, factor: Any, micro_batches: Any
    ) -> list[tuple[_Batches, _Batches]]:
        """On each replica of this process the batches of a layer, and what takes their place in a step without.

        None for a vector.
        """
        layer, found = self._layers.of(variable), list[tuple[_Batches, _Batches]]()
        if layer.view is None:
            return found

        @tf.autograph.experimental.do_not_convert
        def run(variable: Any, gradient: Any, factor: Any) -> None:
            gradient = mean_of(tf.cast(gradient, arithmetic_dtype(variable)), micro_batches)
            slots = layer.read_slots()
            batches, new_slots = self._rule.before_transform(self._clipped(gradient, factor), slots, layer.view)
            layer.assign_slots(slots, new_slots)
            # Kept here rather than returned: what `update` makes of a result depends on the strategy.
            found.append((batches, self._rule.kept(slots, layer.view) if self._rule.transform_every() > 1 else []))

        self._layers.on_replicas(strategy, layer, variable, run, gradient, factor)
        return found
