"""The face of the optimizers for `tf_keras` (Keras 2): variables, distribution, serialisation."""

import sys

import tensorflow as tf
import tf_keras

from tfbigbatch.optimizers import layerwise
from tfbigbatch.optimizers.adasum.keras2 import Adasum
from tfbigbatch.optimizers.checkpointing import NamedState
from tfbigbatch.optimizers.lamb import LAMBMixin
from tfbigbatch.optimizers.lars import LARSMixin

__all__ = ["Adasum", "LAMB", "LARS"]

_Schedule = tf_keras.optimizers.schedules.LearningRateSchedule


class LayerwiseOptimizer(tf_keras.optimizers.Optimizer):
    """The variables behind a layer-wise optimizer in tf_keras."""

    face, other_face = "tf_keras", "keras3"

    def __init__(
        self,
        learning_rate,
        *,
        weight_decay=0.0,
        exclude_from_weight_decay=None,
        exclude_from_layer_adaptation=None,
        accumulation_steps=1,
        layer_statistics=False,
        jit_compile=None,
        name,
        **kwargs,
    ):
        if "lr" in kwargs:
            raise ValueError(f"{name}: lr={kwargs['lr']} is not an argument; write learning_rate={kwargs['lr']}.")
        # The base class would apply the decay by itself, outside the trust ratio.
        super().__init__(name=name, weight_decay=None, jit_compile=jit_compile is not False, **kwargs)
        # None leaves the base class' choice: XLA where a GPU is visible.
        if jit_compile is not None:
            self.jit_compile = jit_compile
        self._set_options(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            exclude_from_weight_decay=exclude_from_weight_decay,
            exclude_from_layer_adaptation=exclude_from_layer_adaptation,
            accumulation_steps=accumulation_steps,
            layer_statistics=layer_statistics,
            jit_compile=jit_compile,
        )
        if callable(learning_rate) and not isinstance(learning_rate, _Schedule):
            self._learning_rate = learning_rate
            named = {}
        else:
            self._learning_rate = self._build_learning_rate(learning_rate)
            named = {} if callable(self._learning_rate) else {"learning_rate": self._learning_rate}
        if accumulation_steps > 1:
            with tf.init_scope():
                self._micro_steps = tf.Variable(0, name="micro_steps", dtype=tf.int64, trainable=False)
            self._variables.append(self._micro_steps)
            named["micro_steps"] = self._micro_steps
        self.named_state = NamedState(type(self).__name__, iterations=self._iterations, **named)

    def build(self, var_list):
        """Makes the state of all variables; later calls change nothing."""
        if getattr(self, "_built", False):
            return
        keras = sys.modules.get("keras")
        for variable in var_list:
            if keras is not None and hasattr(keras, "Variable") and isinstance(variable, keras.Variable):
                raise ValueError(
                    layerwise.WRONG_FACE.format(type(self).__name__, other=self.other_face, variable=variable.path)
                )
        super().build(var_list)
        self._layer_indices = self._no_dependency({self._var_key(variable): i for i, variable in enumerate(var_list)})
        self._build_layers(var_list, [variable.name.split(":")[0] for variable in var_list])
        if self.use_ema:
            self.named_state.add_averages(self._paths, self._model_variables_moving_average)
        self._built = True

    def _new_state(self, variable, name):
        # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments kept in it stop.
        with tf.distribute.get_strategy().extended.colocate_vars_with(variable):
            dtype = tf.float64 if variable.dtype == tf.float64 else tf.float32
            state = tf.Variable(
                tf.zeros(variable.shape, dtype), name=f"{name}/{variable._shared_name}", trainable=False
            )
        self._variables.append(state)
        return state

    # ---- The learning rate --------------------------------------------------------------------

    @property
    def learning_rate(self):
        rate = self._learning_rate
        if callable(rate) and not isinstance(rate, _Schedule):
            return rate()
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        if callable(self._learning_rate) and not isinstance(self._learning_rate, _Schedule):
            self._learning_rate = learning_rate
        else:
            tf_keras.optimizers.Optimizer.learning_rate.fset(self, learning_rate)

    def _is_schedule(self, value):
        return isinstance(value, _Schedule)

    # ---- One update ---------------------------------------------------------------------------

    def _clip_gradients(self, grads):
        """Clips nothing yet: `_update_all` does, after the micro-batches are added up.

        Sparse gradients become dense, with duplicate rows added up: the norms are of the whole
        layer, and the moments of rows without a gradient decay as well.
        """
        return [tf.convert_to_tensor(gradient) for gradient in grads]

    def _apply_weight_decay(self, variables):
        """Does nothing: the decay is part of the update."""

    @tf.autograph.experimental.do_not_convert
    def _distributed_apply_gradients_fn(self, distribution, grads_and_vars, **kwargs):
        gradients, variables = zip(*grads_and_vars)
        self._update_all(distribution, gradients, variables)
        return self.iterations

    def update_step(self, gradient, variable):
        """The update of one variable, for callers that go round `apply_gradients`."""
        self._layer_update(variable, gradient, self._step(), None)

    def _update_averages(self, variables):
        if not self.use_ema:
            return
        self._update_model_variables_moving_average(variables)
        if self.ema_overwrite_frequency:
            tf.cond(
                (self.iterations + 1) % self.ema_overwrite_frequency == 0,
                lambda: self._overwrite_model_variables_with_average_value(variables),
                lambda: None,
            )

    def _end_update(self):
        self.iterations.assign_add(1)

    def _skip_update(self):
        """The other branch of an update's condition."""

    # ---- Serialisation ------------------------------------------------------------------------

    def get_config(self):
        config = super().get_config()
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            config[name] = self._serialize_hyperparameter(value)
            if callable(value) and not self._is_schedule(value):
                config[name] = float(config[name])
        config.update(self._options())
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = tf_keras.optimizers.schedules.deserialize(config[name], custom_objects=custom_objects)
        config.pop("is_legacy_optimizer", None)
        return cls(**config)


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class LARS(LARSMixin, LayerwiseOptimizer):
    __doc__ = layerwise.with_shared_arguments(LARSMixin.__doc__)


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class LAMB(LAMBMixin, LayerwiseOptimizer):
    __doc__ = layerwise.with_shared_arguments(LAMBMixin.__doc__)
