"""The optimizers for `tf_keras` (Keras 2), and their wrappers: variables, distribution, serialisation."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import adamw, lamb, lars, muon, options, shampoo
from tfbigbatch.optimizers.adasum.optimizer import AdasumMixin
from tfbigbatch.optimizers.arguments import Argument
from tfbigbatch.optimizers.base import LayerStatistics, Rule
from tfbigbatch.optimizers.checkpointing import NamedState, SavedByName
from tfbigbatch.optimizers.local_steps.optimizer import LocalStepsMixin
from tfbigbatch.optimizers.sharded_updates import one_device
from tfbigbatch.optimizers.updater import LayerwiseUpdater
from tfbigbatch.optimizers.wrapper import WrapperMixin

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo"]

_Schedule = tf_keras.optimizers.schedules.LearningRateSchedule
_registered = tf_keras.saving.register_keras_serializable


class LayerwiseOptimizer(SavedByName, tf_keras.optimizers.Optimizer):
    """The `base.Adapter` of tf_keras: an optimizer that applies a rule layer by layer, through its `updater`."""

    replicas_differ = False
    counts_calls = False
    of_keras: Mapping[str, Argument] = {}
    unchecked = ("name", "mesh", "is_legacy_optimizer")

    def __init__(self, *, learning_rate: Any, rule: Rule, weight_decay: Any, name: str, **arguments: Any) -> None:
        layer_options = options.LayerOptions.taken_from(arguments)
        jit_compile = layer_options.jit_compile
        # The base class would apply the decay by itself, outside the trust ratio.
        super().__init__(name=name, weight_decay=None, jit_compile=jit_compile is not False, **arguments)
        # None leaves the base class' choice: XLA where a GPU is visible.
        if jit_compile is not None:
            self.jit_compile = jit_compile
        label = type(self).__name__
        self.weight_decay = weight_decay
        options.check_schedules(label, self.is_schedule, learning_rate=learning_rate, weight_decay=weight_decay)
        self.accumulation_steps = layer_options.accumulation_steps
        if callable(learning_rate) and not isinstance(learning_rate, _Schedule):
            self._learning_rate = learning_rate
            named = {}
        else:
            self._learning_rate = self._build_learning_rate(learning_rate)
            named = {} if callable(self._learning_rate) else {"learning_rate": self._learning_rate}
        micro_steps = None
        if layer_options.accumulates:
            with tf.init_scope():
                micro_steps = tf.Variable(0, name="micro_steps", dtype=tf.int64, trainable=False)
            self._variables.append(micro_steps)
            named["micro_steps"] = micro_steps
        self.updater = LayerwiseUpdater(rule, layer_options, self, micro_steps)
        self.named_state = NamedState(label, iterations=self._iterations, **named)

    def __str__(self) -> str:
        return options.DESCRIPTION.format(type(self).__name__, own="keras2", other="keras3")

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if getattr(self, "_built", False):
            return
        keras = sys.modules.get("keras")
        for variable in var_list:
            if keras is not None and hasattr(keras, "Variable") and isinstance(variable, keras.Variable):
                raise ValueError(
                    options.WRONG_KERAS.format(type(self).__name__, other="keras3", variable=variable.path)
                )
        super().build(var_list)
        paths = [variable.name.split(":")[0] for variable in var_list]
        self.named_state.add_layers(paths, self.updater.layers.build(var_list, paths))
        if self.use_ema:
            self.named_state.add_others("average", paths, self._model_variables_moving_average)
        self._built = True

    def new_state(
        self, variable: tf.Variable, name: str, shape: Sequence[int] | None = None, device: str | None = None
    ) -> tf.Variable:
        # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change.
        extended = tf.distribute.get_strategy().extended
        with extended.colocate_vars_with(variable) if device is None else one_device(device):
            dtype = tf.float64 if variable.dtype == tf.float64 else tf.float32
            state = tf.Variable(
                tf.zeros(variable.shape if shape is None else shape, dtype),
                name=f"{name}/{variable._shared_name}",
                trainable=False,
            )
        self._variables.append(state)
        return state

    def layer_key(self, variable: tf.Variable) -> Hashable:
        return self._var_key(variable)

    def is_decayed(self, variable: tf.Variable) -> bool:
        return self._use_weight_decay(variable)

    def layer_statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's trust ratio and norms at the last step, by path; see `Layers.statistics`."""
        return self.updater.layers.statistics()

    # ---- The learning rate --------------------------------------------------------------------

    @property
    def learning_rate(self) -> Any:
        rate = self._learning_rate
        if callable(rate) and not isinstance(rate, _Schedule):
            return rate()
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        if callable(self._learning_rate) and not isinstance(self._learning_rate, _Schedule):
            self._learning_rate = learning_rate
        else:
            tf_keras.optimizers.Optimizer.learning_rate.fset(self, learning_rate)

    def is_schedule(self, value: Any) -> bool:
        return isinstance(value, _Schedule)

    # ---- One step -----------------------------------------------------------------------------

    def _clip_gradients(self, grads: Iterable[Any]) -> list[tf.Tensor]:
        """Does not clip: the updater does, after the micro-batches are added up.

        Sparse gradients become dense, with duplicate rows added up: the norms are of the whole
        layer, and the moments of rows without a gradient decay as well.
        """
        return [tf.convert_to_tensor(gradient) for gradient in grads]

    def _apply_weight_decay(self, variables: Sequence[tf.Variable]) -> None:
        """Does nothing: the decay is part of the rule."""

    @tf.autograph.experimental.do_not_convert
    def _distributed_apply_gradients_fn(self, distribution: Any, grads_and_vars: Any, **kwargs: Any) -> Any:
        """The last part of Keras' `apply_gradients`, after the sum over the replicas."""
        gradients, variables = zip(*grads_and_vars)
        self.updater.apply(distribution, gradients, variables)
        return self.iterations

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Refused: a step is of all layers."""
        raise InputError(f"{type(self).__name__}.update_step: call apply_gradients with all gradients.")

    def update_averages(self, variables: Sequence[tf.Variable]) -> None:
        if not self.use_ema:
            return
        self._update_model_variables_moving_average(variables)
        if self.ema_overwrite_frequency:
            tf.cond(
                (self.iterations + 1) % self.ema_overwrite_frequency == 0,
                lambda: self._overwrite_model_variables_with_average_value(variables),
                lambda: None,
            )

    # ---- Serialisation ------------------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            config[name] = self._serialize_hyperparameter(value)
            if callable(value) and not self.is_schedule(value):
                config[name] = float(config[name])
        return {**config, **self.updater.options.config(), **self.updater.rule.config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = tf_keras.optimizers.schedules.deserialize(config[name], custom_objects=custom_objects)
        config.pop("is_legacy_optimizer", None)
        return cls(**config)


@_registered("tfbigbatch")
class LARS(lars.Optimizer, LayerwiseOptimizer):
    __doc__ = lars.DOCSTRING


@_registered("tfbigbatch")
class LAMB(lamb.Optimizer, LayerwiseOptimizer):
    __doc__ = lamb.DOCSTRING


@_registered("tfbigbatch")
class AdamW(adamw.Optimizer, LayerwiseOptimizer):
    __doc__ = adamw.DOCSTRING


@_registered("tfbigbatch")
class Muon(muon.Optimizer, LayerwiseOptimizer):
    __doc__ = muon.DOCSTRING


@_registered("tfbigbatch")
class Shampoo(shampoo.Optimizer, LayerwiseOptimizer):
    __doc__ = shampoo.DOCSTRING


class Wrapper(WrapperMixin, tf.__internal__.tracking.DelegatingTrackableMixin, tf_keras.optimizers.Optimizer):
    """An optimizer of tf_keras around another one: what `WrapperMixin` leaves to each Keras."""

    # Of TensorFlow: no attribute becomes a part of the inner optimizer's checkpoint.
    _self_setattr_tracking = False

    def __init__(self, optimizer: Any) -> None:
        self._check_inner(optimizer, tf_keras, "keras3")
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

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Assigns all state, as Keras does from a `.h5` file.

        Args:
          weights: arrays, one for each of `variables`.

        Raises:
          ValueError: they are of other variables.
        """
        variables, shapes = self.variables, [tuple(weight.shape) for weight in weights]
        expected = [tuple(variable.shape) for variable in variables]
        if shapes != expected:
            name = type(self).__name__
            raise InputError(f"{name}: arrays of shapes {shapes}; expected those of its variables, {expected}.")
        for variable, weight in zip(variables, weights):
            variable.assign(np.asarray(weight))

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


@_registered("tfbigbatch")
class Adasum(AdasumMixin, Wrapper):
    __doc__ = AdasumMixin.__doc__


@_registered("tfbigbatch")
class LocalSteps(LocalStepsMixin, Wrapper):
    __doc__ = LocalStepsMixin.__doc__
