"""Adasum, LocalSteps and loss scaling for Keras 3 on TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from tfbigbatch.optimizers import adasum, local_steps, wrapper
from tfbigbatch.optimizers.tensorflow import tensor_variable

if TYPE_CHECKING:
    from tfbigbatch.optimizers.face import KerasOptimizer as _Optimizer
else:
    _Optimizer = keras.optimizers.Optimizer


class Wrapper(wrapper.Wrapper, _Optimizer):
    """An optimizer of Keras 3 around another one: what `wrapper.Wrapper` leaves to each Keras."""

    of_keras, other = keras, "keras2"

    def configure(self, values: dict[str, Any]) -> None:
        own, optimizer = type(self).__name__, values["optimizer"]
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                f"{own}: gradient_accumulation_steps={optimizer.gradient_accumulation_steps} is Keras' own, which "
                "fails under MirroredStrategy. Accumulate in the training step: optimizers.accumulate_gradients."
            )
        keras.optimizers.Optimizer.__init__(self, learning_rate=0.0, name=optimizer.name)
        super().configure(values)
        # The gradients come exchanged: the sum over the replicas must not be taken again.
        optimizer._all_reduce_sum_gradients = list
        optimizer._gradients_are_reduced = True
        self._gradients_are_reduced = False

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of the optimizer and of the exchange."""
        super().build(variables)
        self._trainable_variables = self.inner_optimizer._trainable_variables

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Exchanges between the replicas what the wrapper is for, and updates the variables; see `Wrapper.step`."""
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        apply = self.inner_optimizer.apply_gradients
        self.step(zip(grads, trainable_variables), self._gradients_are_reduced, apply)

    scale_loss = wrapper.of_inner("scale_loss")


@keras.saving.register_keras_serializable("tfbigbatch")
class Adasum(adasum.Adasum, Wrapper): ...


@keras.saving.register_keras_serializable("tfbigbatch")
class LocalSteps(local_steps.LocalSteps, Wrapper): ...


@keras.saving.register_keras_serializable("tfbigbatch")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras' dynamic loss scaling for float16, around an optimizer of ours, on any number of replicas.

    Keras' own asks each replica for its own gradients and takes the first one's word: an infinity
    on another is applied to all. Here they are added up first, so that all see the same and skip
    the same steps. Under a policy of mixed_float16, wrap the optimizer in this one before `compile`.

    Raises:
      ValueError: the optimizer is not one of ours.
    """

    def __init__(self, inner_optimizer: Any, **kwargs: Any) -> None:
        # Of all our optimizers: they take gradients that are added up, or exchanged, already.
        if not hasattr(inner_optimizer, "_gradients_are_reduced"):
            raise ValueError(
                f"LossScaleOptimizer is for the optimizers of tfbigbatch.optimizers.keras3, not "
                f"{inner_optimizer!r}: take keras.optimizers.LossScaleOptimizer."
            )
        super().__init__(inner_optimizer, **kwargs)
        inner_optimizer._gradients_are_reduced = True

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Combines the gradients of the replicas, and applies them unless one is not finite."""
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        pairs, overwritten = wrapper.without_overwritten(zip(grads, trainable_variables))
        if isinstance(self.inner_optimizer, Wrapper):
            pairs = self.inner_optimizer.aggregate_gradients(pairs)
        else:
            reduced = self._all_reduce_sum_gradients([(gradient, tensor_variable(each)) for gradient, each in pairs])
            pairs = [(gradient, variable) for (gradient, _), (_, variable) in zip(reduced, pairs)]
        pairs += overwritten
        super().apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
