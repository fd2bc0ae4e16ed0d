"""The wrapper of an optimizer for `tf_keras` (Keras 2), with the state of its inner optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers.wrapper import WrapperMixin


class Wrapper(WrapperMixin, tf.__internal__.tracking.DelegatingTrackableMixin, tf_keras.optimizers.Optimizer):
    """An optimizer of tf_keras around another one: what `WrapperMixin` leaves to each Keras."""

    @tf.__internal__.tracking.no_automatic_dependency_tracking
    def __init__(self, optimizer: Any) -> None:
        if not isinstance(optimizer, tf_keras.optimizers.Optimizer):
            own = type(self).__name__
            raise ValueError(
                f"{own} of tf_keras was given {optimizer!r}; expected an optimizer of tf_keras. For another Keras: "
                f"tfbigbatch.optimizers.keras3.{own}."
            )
        self._check_inner(optimizer)
        # The base class' constructor would make a second state beside the optimizer's.
        self._optimizer = optimizer
        tf.__internal__.tracking.DelegatingTrackableMixin.__init__(self, optimizer)

    def __getattr__(self, name: str) -> Any:
        # Reached for what this class does not have: clipnorm, layer_statistics, the name, and whatever Keras keeps.
        if name == "_optimizer":
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    @property
    def inner_optimizer(self) -> Any:
        """The optimizer that was given."""
        return self._optimizer

    # ---- One step -------------------------------------------------------------------------------

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Exchanges between the replicas what the wrapper is for, and updates the variables.

        Args:
          grads_and_vars: list of (gradient, variable) pairs.
          name: scope of the variables that are made.
          skip_gradients_aggregation: the gradients come from `aggregate_gradients`.

        Raises:
          ValueError: the call is not in a replica's context.
        """
        self._check_in_replica("apply_gradients")
        skip = skip_gradients_aggregation or not kwargs.pop("experimental_aggregate_gradients", True)
        grads_and_vars = list(grads_and_vars)
        if not grads_and_vars:
            return self.iterations
        with tf.init_scope():
            self.build([variable for _, variable in grads_and_vars])
        pairs = self._present(grads_and_vars)
        variables = [variable for _, variable in pairs]
        gradients = [gradient for gradient, _ in pairs]
        gradients = gradients if skip else self._received(gradients)
        self._apply_wrapped(
            variables,
            lambda: self._optimizer.apply_gradients(
                zip(gradients, variables), name=name, skip_gradients_aggregation=True
            ),
        )
        return self.iterations

    # ---- Attributes of the inner optimizer ------------------------------------------------------

    def build(self, var_list: Sequence[tf.Variable]) -> Any:
        """Makes the optimizer's state."""
        return self._optimizer.build(var_list)

    lr = WrapperMixin.learning_rate

    def set_weights(self, weights: Any) -> None:
        """Keras' own method, of the optimizer."""
        self._optimizer.set_weights(weights)

    # ---- Serialisation --------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        return {"optimizer": tf_keras.optimizers.serialize(self._optimizer), **self._options()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        inner = config.pop("optimizer")
        # An HDF5 file is read in Keras' older format, which does not know optimizers of a package by `class_name`.
        registered = tf_keras.saving.get_registered_object(inner.get("registered_name"), custom_objects)
        if registered is not None:
            return cls(registered.from_config(inner["config"]), **config)
        return cls(tf_keras.optimizers.deserialize(inner, custom_objects=custom_objects), **config)
