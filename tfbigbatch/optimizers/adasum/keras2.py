"""The face of Adasum for `tf_keras` (Keras 2): a wrapper whose state is that of the optimizer within."""

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers.adasum import optimizer as adasum

_Optimizer = tf_keras.optimizers.Optimizer


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class Adasum(adasum.AdasumMixin, tf.__internal__.tracking.DelegatingTrackableMixin, _Optimizer):
    __doc__ = adasum.AdasumMixin.__doc__

    @tf.__internal__.tracking.no_automatic_dependency_tracking
    def __init__(self, optimizer, combine=None, group_size=1):
        if not isinstance(optimizer, _Optimizer):
            raise ValueError(
                f"Adasum of tf_keras was given {optimizer!r}; expected an optimizer of tf_keras. For another Keras: "
                "tfbigbatch.optimizers.keras3.Adasum."
            )
        # The base class' constructor would make a second state beside the optimizer's.
        self._optimizer = optimizer
        tf.__internal__.tracking.DelegatingTrackableMixin.__init__(self, optimizer)
        self._set_adasum(optimizer, combine, group_size)

    def __getattr__(self, name):
        # Reached for what this class does not have: clipnorm, layer_statistics, the name, and whatever Keras keeps.
        if name == "_optimizer":
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    @property
    def inner_optimizer(self):
        """The optimizer that was given."""
        return self._optimizer

    # ---- One update -----------------------------------------------------------------------------

    def apply_gradients(self, grads_and_vars, name=None, skip_gradients_aggregation=False, **kwargs):
        """Combines the replicas' gradients or updates, and updates the variables.

        Args:
          grads_and_vars: list of (gradient, variable) pairs.
          name: scope of the variables that are made.
          skip_gradients_aggregation: the gradients come from `aggregate_gradients`.

        Raises:
          ValueError: the call is not in a replica's context.
        """
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                "Adasum: apply_gradients was called outside strategy.run, where no replica's gradients can be told "
                "from the others'. Call it in the function that strategy.run is given."
            )
        skip = skip_gradients_aggregation or not kwargs.pop("experimental_aggregate_gradients", True)
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        variables = [variable for _, variable in pairs]
        with tf.init_scope():
            self.build(variables)
        gradients = [gradient for gradient, _ in pairs]
        gradients = gradients if skip else self._received(gradients)

        def update():
            self._optimizer.apply_gradients(zip(gradients, variables), name=name, skip_gradients_aggregation=True)

        if self.combine == "updates" and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            self._combining_updates(variables, update)
        else:
            update()
        return self.iterations

    def _tensor_variables(self):
        return list(self._optimizer.variables)

    # ---- What is the optimizer's ----------------------------------------------------------------

    def build(self, var_list):
        """Makes the optimizer's state."""
        return self._optimizer.build(var_list)

    @property
    def iterations(self):
        return self._optimizer.iterations

    @iterations.setter
    def iterations(self, variable):
        self._optimizer.iterations = variable

    lr = adasum.AdasumMixin.learning_rate

    def set_weights(self, weights):
        """Keras' own method, of the optimizer."""
        self._optimizer.set_weights(weights)

    # ---- Serialisation --------------------------------------------------------------------------

    def get_config(self):
        return {"optimizer": tf_keras.optimizers.serialize(self._optimizer), **self._options()}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        optimizer = tf_keras.optimizers.deserialize(config.pop("optimizer"), custom_objects=custom_objects)
        return cls(optimizer, **config)
