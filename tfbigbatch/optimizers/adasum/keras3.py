"""The face of Adasum for Keras 3 on TensorFlow: a wrapper whose state is that of the optimizer within."""

import keras
import tensorflow as tf

from tfbigbatch.optimizers.adasum import optimizer as adasum

_Optimizer = keras.optimizers.Optimizer


@keras.saving.register_keras_serializable(package="tfbigbatch")
class Adasum(adasum.AdasumMixin, _Optimizer):
    __doc__ = adasum.AdasumMixin.__doc__

    def __init__(self, optimizer, combine=None, group_size=1):
        if not isinstance(optimizer, _Optimizer):
            raise ValueError(
                f"Adasum of Keras 3 was given {optimizer!r}; expected an optimizer of keras. For the other Keras: "
                "tfbigbatch.optimizers.keras2.Adasum."
            )
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                f"Adasum: gradient_accumulation_steps={optimizer.gradient_accumulation_steps} is Keras' own, which "
                "fails under MirroredStrategy. Accumulate in the training step: optimizers.accumulate_gradients."
            )
        super().__init__(learning_rate=0.0, name=optimizer.name)
        self._set_adasum(optimizer, combine, group_size)
        self.inner_optimizer = optimizer
        # The gradients come combined: the sum over the replicas must not be taken again.
        optimizer._all_reduce_sum_gradients = list
        optimizer._gradients_are_reduced = True
        self._gradients_are_reduced = False

    # ---- One update -----------------------------------------------------------------------------

    def apply(self, grads, trainable_variables=None):
        """Combines the replicas' gradients or updates, and updates the variables.

        Args:
          grads: list of gradients.
          trainable_variables: list of their variables; those of `build` where left out.

        Raises:
          ValueError: the call is not in a replica's context.
        """
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                "Adasum: apply was called outside strategy.run, where no replica's gradients can be told from the "
                "others'. Call it in the function that strategy.run is given."
            )
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        elif not self.built:
            with tf.init_scope():
                self.build(trainable_variables)
        pairs = [pair for pair in zip(grads, trainable_variables) if pair[0] is not None]
        gradients, variables = [list(each) for each in zip(*pairs)]
        if not self._gradients_are_reduced:
            gradients = self._received(gradients)
        if self.combine == "updates" and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            self._combining_updates(
                [_tensor_variable(variable) for variable in variables],
                lambda: self.inner_optimizer.apply(gradients, variables),
            )
        else:
            self.inner_optimizer.apply(gradients, variables)

    def _tensor_variables(self):
        return [_tensor_variable(variable) for variable in self.inner_optimizer.variables]

    # ---- What is the optimizer's ----------------------------------------------------------------

    def build(self, variables):
        """Makes the optimizer's state."""
        self.inner_optimizer.build(variables)
        self._trainable_variables = self.inner_optimizer._trainable_variables
        self.built = True

    def layer_statistics(self):
        """The optimizer's, where it has them; see `LAMB`."""
        return self.inner_optimizer.layer_statistics()

    @property
    def iterations(self):
        return self.inner_optimizer.iterations

    def scale_loss(self, loss):
        """Keras' own method, of the optimizer."""
        return self.inner_optimizer.scale_loss(loss)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        # A checkpoint is that of the optimizer alone, with or without Adasum around it.
        return self.inner_optimizer._trackable_children(save_type, **kwargs)

    def _lookup_dependency(self, name, *args, **kwargs):
        # The base class' constructor asks too, before there is an optimizer.
        holder = vars(self).get("inner_optimizer", super())
        return holder._lookup_dependency(name, *args, **kwargs)

    # ---- Serialisation --------------------------------------------------------------------------

    def get_config(self):
        return {"optimizer": keras.saving.serialize_keras_object(self.inner_optimizer), **self._options()}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(config.pop("optimizer"), custom_objects=custom_objects)
        return cls(optimizer, **config)


def _tensor_variable(variable):
    """The tf.Variable within a keras.Variable; a tf.Variable as it is."""
    return variable.value if isinstance(variable, keras.Variable) else variable
