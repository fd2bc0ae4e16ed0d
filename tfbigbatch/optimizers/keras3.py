"""The face of the optimizers for Keras 3 on TensorFlow: variables, distribution, serialisation."""

import numbers
import warnings

import keras
import tensorflow as tf

from tfbigbatch.optimizers import layerwise
from tfbigbatch.optimizers.adasum.keras3 import Adasum
from tfbigbatch.optimizers.checkpointing import NamedState
from tfbigbatch.optimizers.lamb import LAMBMixin
from tfbigbatch.optimizers.lars import LARSMixin

__all__ = ["Adasum", "LAMB", "LARS", "LossScaleOptimizer"]

_Schedule = keras.optimizers.schedules.LearningRateSchedule


class LayerwiseOptimizer(keras.optimizers.Optimizer):
    """The variables behind a layer-wise optimizer in Keras 3."""

    face, other_face = "keras3", "tf_keras"

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
        gradient_accumulation_steps=None,
        **kwargs,
    ):
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                f"{name}: Keras runs on {keras.backend.backend()}, these optimizers on TensorFlow. Set "
                "KERAS_BACKEND=tensorflow before Keras is imported."
            )
        if gradient_accumulation_steps is not None:
            raise ValueError(
                f"{name}: gradient_accumulation_steps={gradient_accumulation_steps} is Keras' own, which clips before "
                f"the replicas are added up and fails under MirroredStrategy. Write "
                f"accumulation_steps={gradient_accumulation_steps}."
            )
        if isinstance(learning_rate, numbers.Real):
            # The base class takes Python's float alone.
            learning_rate = float(learning_rate)
        # The base class would apply the decay by itself, outside the trust ratio.
        super().__init__(learning_rate=learning_rate, name=name, weight_decay=None, **kwargs)
        self._gradients_are_reduced = False
        # As tf_keras does: XLA for each variable where a GPU is visible.
        self.jit_compile = bool(tf.config.list_physical_devices("GPU")) if jit_compile is None else jit_compile
        self._set_options(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            exclude_from_weight_decay=exclude_from_weight_decay,
            exclude_from_layer_adaptation=exclude_from_layer_adaptation,
            accumulation_steps=accumulation_steps,
            layer_statistics=layer_statistics,
            jit_compile=jit_compile,
        )
        named = {} if callable(self._learning_rate) else {"learning_rate": _tensor_variable(self._learning_rate)}
        if accumulation_steps > 1:
            micro_steps = self.add_variable((), dtype="int64", aggregation="only_first_replica", name="micro_steps")
            self._micro_steps = named["micro_steps"] = _tensor_variable(micro_steps)
        self.named_state = NamedState(type(self).__name__, iterations=_tensor_variable(self._iterations), **named)

    def build(self, variables):
        """Makes the state of all variables; later calls change nothing."""
        if self.built:
            return
        super().build(variables)
        paths = [getattr(variable, "path", variable.name.split(":")[0]) for variable in variables]
        variables = [_tensor_variable(variable) for variable in variables]
        self._layer_indices = {self._var_key(variable): i for i, variable in enumerate(variables)}
        self._build_layers(variables, paths)
        if self.use_ema:
            averages = [_tensor_variable(average) for average in self._model_variables_moving_average]
            self.named_state.add_averages(self._paths, averages)

    def _new_state(self, variable, name):
        with self._distribution_strategy.extended.colocate_vars_with(variable):
            # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments kept in it stop.
            dtype = "float64" if variable.dtype == tf.float64 else "float32"
            label = variable.name.split(":")[0].replace("/", "_")
            return _tensor_variable(self.add_variable(variable.shape, dtype=dtype, name=f"{label}_{name}"))

    def _is_schedule(self, value):
        return isinstance(value, _Schedule)

    # ---- One update ---------------------------------------------------------------------------

    def _backend_apply_gradients(self, grads, trainable_variables):
        """Sums over replicas first; the base class clips before, so that its weights depend on their number."""
        variables = [_tensor_variable(variable) for variable in trainable_variables]
        if not self._gradients_are_reduced:
            grads = [gradient for gradient, _ in self._all_reduce_sum_gradients(list(zip(grads, variables)))]
        # Sparse gradients become dense: the norms are of the whole layer.
        gradients = [tf.convert_to_tensor(gradient) for gradient in grads]
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_all, self._distribution_strategy, gradients, variables
        )

    def update_step(self, gradient, variable, learning_rate):
        """The update of one variable, for callers that go round `apply`."""
        step = self._step()._replace(learning_rate=tf.cast(learning_rate, tf.float32))
        self._layer_update(_tensor_variable(variable), gradient, step, None)

    def _update_averages(self, variables):
        if not self.use_ema:
            return
        self._update_model_variables_moving_average(self._trainable_variables)
        if self.ema_overwrite_frequency:
            tf.cond(
                tf.convert_to_tensor(self.iterations + 1) % self.ema_overwrite_frequency == 0,
                lambda: self._overwrite_model_variables_with_average_value(self._trainable_variables),
                lambda: None,
            )

    def _end_update(self):
        """Does nothing: the base class counts after each call."""

    def _skip_update(self):
        # `iterations` counts updates: this takes back what the base class adds after each call.
        self._iterations.assign_sub(1)

    # ---- Serialisation ------------------------------------------------------------------------

    def get_config(self):
        with warnings.catch_warnings():
            # Keras would serialise the code of a callable, and warns that this is unsafe: its value is kept.
            warnings.filterwarnings("ignore", "The object being serialized includes a `lambda`")
            config = super().get_config()
        del config["gradient_accumulation_steps"]
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            if self._is_schedule(value):
                config[name] = keras.optimizers.schedules.serialize(value)
            elif callable(value):
                config[name] = float(value())
            elif name == "weight_decay":
                config[name] = value
        config.update(self._options())
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = keras.optimizers.schedules.deserialize(config[name], custom_objects=custom_objects)
        return cls(**config)


def _tensor_variable(variable):
    """The tf.Variable within a keras.Variable; a tf.Variable as it is."""
    return variable.value if isinstance(variable, keras.Variable) else variable


@keras.saving.register_keras_serializable(package="tfbigbatch")
class LARS(LARSMixin, LayerwiseOptimizer):
    __doc__ = layerwise.with_shared_arguments(LARSMixin.__doc__)


@keras.saving.register_keras_serializable(package="tfbigbatch")
class LAMB(LAMBMixin, LayerwiseOptimizer):
    __doc__ = layerwise.with_shared_arguments(LAMBMixin.__doc__)


@keras.saving.register_keras_serializable(package="tfbigbatch")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras' dynamic loss scaling for float16, around LARS, LAMB or Adasum, on any number of replicas.

    Keras' own asks each replica for its own gradients and takes the first one's word: an infinity
    on another is applied to all. Here they are added up first, so that all see the same and skip
    the same steps. Under a policy of mixed_float16, wrap the optimizer in this one before `compile`.

    Raises:
      ValueError: the optimizer is not LARS, LAMB or Adasum of this module.
    """

    def __init__(self, inner_optimizer, **kwargs):
        if not isinstance(inner_optimizer, (LayerwiseOptimizer, Adasum)):
            raise ValueError(
                f"LossScaleOptimizer is for LARS, LAMB and Adasum of tfbigbatch.optimizers.keras3, not "
                f"{inner_optimizer!r}: take keras.optimizers.LossScaleOptimizer."
            )
        super().__init__(inner_optimizer, **kwargs)
        inner_optimizer._gradients_are_reduced = True

    def apply(self, grads, trainable_variables=None):
        """Combines the gradients of the replicas, and applies them unless one is not finite."""
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        pairs = list(zip(grads, trainable_variables))
        if isinstance(self.inner_optimizer, Adasum):
            pairs = self.inner_optimizer.aggregate_gradients(pairs)
        else:
            reduced = self._all_reduce_sum_gradients([(gradient, _tensor_variable(each)) for gradient, each in pairs])
            pairs = [(gradient, variable) for (gradient, _), (_, variable) in zip(reduced, pairs)]
        super().apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
