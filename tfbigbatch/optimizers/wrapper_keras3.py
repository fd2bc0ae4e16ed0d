"""The wrapper of an optimizer for Keras 3 on TensorFlow, with the state of its inner optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.optimizers.wrapper import WrapperMixin


class Wrapper(WrapperMixin, keras.optimizers.Optimizer):
    """An optimizer of Keras 3 around another one: what `WrapperMixin` leaves to each Keras."""

    def __init__(self, optimizer: Any) -> None:
        own = type(self).__name__
        keras_version.require_tensorflow(self, own)
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(
                f"{own} of Keras 3 was given {optimizer!r}; expected an optimizer of keras. For the other Keras: "
                f"tfbigbatch.optimizers.keras2.{own}."
            )
        self._check_inner(optimizer)
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                f"{own}: gradient_accumulation_steps={optimizer.gradient_accumulation_steps} is Keras' own, which "
                "fails under MirroredStrategy. Accumulate in the training step: optimizers.accumulate_gradients."
            )
        super().__init__(learning_rate=0.0, name=optimizer.name)
        self.inner_optimizer = optimizer
        # The gradients come exchanged: the sum over the replicas must not be taken again.
        optimizer._all_reduce_sum_gradients = list
        optimizer._gradients_are_reduced = True
        self._gradients_are_reduced = False

    # ---- One step -------------------------------------------------------------------------------

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Exchanges between the replicas what the wrapper is for, and updates the variables.

        Args:
          grads: list of gradients.
          trainable_variables: list of their variables; those of `build` where left out.

        Raises:
          ValueError: the call is not in a replica's context.
        """
        self._check_in_replica("apply")
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        elif not self.built:
            with tf.init_scope():
                self.build(trainable_variables)
        pairs = self._present(zip(grads, trainable_variables))
        if not pairs:
            return
        # Of each replica's own: the optimizer writes them into their variables as they are.
        overwritten = [pair for pair in pairs if self._overwrite_variable_with_gradient(pair[1])]
        pairs = [pair for pair in pairs if not self._overwrite_variable_with_gradient(pair[1])]
        gradients, variables = [gradient for gradient, _ in pairs], [variable for _, variable in pairs]
        if not self._gradients_are_reduced:
            gradients = self._received(gradients)
        all_pairs = [*zip(gradients, variables), *overwritten]
        self._apply_wrapped(
            variables,
            lambda: self.inner_optimizer.apply(
                [gradient for gradient, _ in all_pairs], [variable for _, variable in all_pairs]
            ),
        )

    @staticmethod
    def _tensor_variable(variable: Any) -> tf.Variable:
        return variable.value if isinstance(variable, keras.Variable) else variable

    # ---- Attributes of the inner optimizer ------------------------------------------------------

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's state."""
        self.inner_optimizer.build(variables)
        self._trainable_variables = self.inner_optimizer._trainable_variables
        self.built = True

    def layer_statistics(self) -> dict[str, Any]:
        """The optimizer's, where it has them; see `LAMB`."""
        return self.inner_optimizer.layer_statistics()

    def scale_loss(self, loss: Any) -> Any:
        """Keras' own method, of the optimizer."""
        return self.inner_optimizer.scale_loss(loss)

    # ---- Serialisation --------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        return {"optimizer": keras.saving.serialize_keras_object(self.inner_optimizer), **self._options()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(config.pop("optimizer"), custom_objects=custom_objects)
        return cls(optimizer, **config)
