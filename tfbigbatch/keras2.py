"""Optimizers and schedules for tf_keras (Keras 2): the classes of `tfbigbatch.optimizers` for that Keras.

    from tfbigbatch import keras2
    model.compile(optimizer=keras2.LAMB(0.002), ...)

A class here is a rule (`optimizers.lamb.LAMB`) and `Face`, tf_keras' optimizer. Nothing of the package imports this
module but by the name of its Keras (`keras_version.module_for`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.optimizers import adamw, adasum, face, lamb, lars, local_steps, muon, registry, shampoo, wrapper
from tfbigbatch.optimizers.checkpointing import NamedState, SavedByName
from tfbigbatch.optimizers.declared import is_schedule
from tfbigbatch.optimizers.sharing import one_device
from tfbigbatch.optimizers.step import step
from tfbigbatch.optimizers.tensorflow import OnReplicas, arithmetic_dtype
from tfbigbatch.schedules import classes

# Imported so, the error where it is not installed names the extra.
tf_keras: Any = keras_version.keras_package("tf_keras")

if TYPE_CHECKING:
    from tfbigbatch.optimizers.face import KerasOptimizer as _Optimizer
    from tfbigbatch.schedules.classes import GradualWarmup, PhasedSchedule, RescaledSchedule

    class _Delegating:
        def __init__(self, trackable: Any) -> None: ...

else:
    GradualWarmup, PhasedSchedule, RescaledSchedule = classes.of_keras(tf_keras, tf, __name__)
    _Optimizer = tf_keras.optimizers.Optimizer
    _Delegating = tf.__internal__.tracking.DelegatingTrackableMixin

__all__ = ["AdamW", "Adasum", "LAMB", "LARS", "LocalSteps", "Muon", "Shampoo"]
__all__ += ["GradualWarmup", "PhasedSchedule", "RescaledSchedule"]

_registered = tf_keras.saving.register_keras_serializable("tfbigbatch")


class Face(SavedByName, face.Face, _Optimizer):
    """A rule as an optimizer of tf_keras, whose step is `optimizers.step.step`."""

    of_keras, own, other = tf_keras, "keras2", "optimizers.keras3"

    def construct(self, learning_rate: Any, name: str | None, **of_keras: Any) -> None:
        tf_keras.optimizers.Optimizer.__init__(self, name=name or type(self).__name__, weight_decay=None, **of_keras)
        self._learning_rate = learning_rate if _is_function(learning_rate) else self._build_learning_rate(learning_rate)

    def configure(self, values: dict[str, Any]) -> None:
        super().configure(values)
        named = {} if callable(self._learning_rate) else {"learning_rate": self._learning_rate}
        if self.accumulates:
            with tf.init_scope():
                self.micro_steps = tf.Variable(0, name="micro_steps", dtype=tf.int64, trainable=False)
            self._variables.append(self.micro_steps)
            named["micro_steps"] = self.micro_steps
        self._place = OnReplicas(self, self.micro_steps, self._iterations)
        self.named_state = NamedState(type(self).__name__, iterations=self._iterations, **named)

    @property
    def is_built(self) -> bool:
        return bool(getattr(self, "_built", False))

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Makes the state of all variables; later calls change nothing."""
        if self.is_built:
            return
        keras = sys.modules.get("keras")
        for variable in var_list:
            if keras is not None and hasattr(keras, "Variable") and isinstance(variable, keras.Variable):
                raise ValueError(
                    f"{type(self).__name__} was given {variable.path!r}, a variable of the other Keras: use "
                    "tfbigbatch.optimizers.keras3 for this model."
                )
        super().build(var_list)
        paths = [variable.name.split(":")[0] for variable in var_list]
        may_decay = [self._use_weight_decay(variable) for variable in var_list]
        self._place.positions = {self._var_key(each): index for index, each in enumerate(var_list)}
        self.named_state.add_layers(paths, self._place.build(var_list, paths, may_decay, self._new_state))
        if self.use_ema:
            self.named_state.add_averages(paths, self._model_variables_moving_average)
            for layer, average in zip(self._place.layers, self._model_variables_moving_average):
                layer.average = average
        self._built = True

    def _new_state(self, variable: tf.Variable, name: str, shape: Sequence[int], device: str | None) -> tf.Variable:
        # Not the variable's own dtype: bfloat16(0.999) is 1.0, and moments in bfloat16 would never change.
        extended = tf.distribute.get_strategy().extended
        with extended.colocate_vars_with(variable) if device is None else one_device(device):
            zeros = tf.zeros(shape, arithmetic_dtype(variable))
            state = tf.Variable(zeros, name=f"{name}/{variable._shared_name}", trainable=False)
        self._variables.append(state)
        return state

    @property  # type: ignore[misc]
    def learning_rate(self) -> Any:
        rate = self._learning_rate
        return rate() if _is_function(rate) else super().learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        if _is_function(self._learning_rate):
            self._learning_rate = learning_rate
        else:
            tf_keras.optimizers.Optimizer.learning_rate.fset(self, learning_rate)

    # ---- One step -----------------------------------------------------------------------------

    def _clip_gradients(self, grads: Iterable[Any]) -> list[tf.Tensor]:
        """Does not clip: the step does, after the micro-batches are added up.

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
        if self.has_foreign_state:
            self.refuse_foreign_state()
        layers = [self._place.layer(self._var_key(variable), variable.name) for variable in variables]
        self._place.begin(distribution, layers, gradients)
        rate = tf.convert_to_tensor(self.learning_rate)
        now = self.now(tf.convert_to_tensor(self._iterations), rate, self.ema_momentum)
        step(self._place, layers, gradients, now)
        # Counted for a micro-batch too, as Keras 3 does; `Place.when_last` takes that back.
        return self._iterations.assign_add(1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "is_legacy_optimizer": False}


def _is_function(rate: Any) -> bool:
    """True for what gives a number without arguments."""
    return callable(rate) and not is_schedule(rate)


@_registered
class LARS(lars.LARS, Face): ...


@_registered
class LAMB(lamb.LAMB, Face): ...


@_registered
class AdamW(adamw.AdamW, Face): ...


@_registered
class Muon(muon.Muon, Face): ...


@_registered
class Shampoo(shampoo.Shampoo, Face): ...


class Wrapper(wrapper.Wrapper, _Delegating, _Optimizer):
    """An optimizer of tf_keras around another one: what `wrapper.Wrapper` leaves to each Keras."""

    of_keras, other = tf_keras, "optimizers.keras3"

    def configure(self, values: dict[str, Any]) -> None:
        # The base class' constructor would make a second state beside the optimizer's.
        _Delegating.__init__(self, values["optimizer"])
        super().configure(values)

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
        are_received = skip_gradients_aggregation or not kwargs.pop("experimental_aggregate_gradients", True)
        apply = functools.partial(self.inner_optimizer.apply_gradients, name=name, skip_gradients_aggregation=True)
        self.step(grads_and_vars, are_received, apply)
        return self.iterations

    @classmethod
    def deserialized(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None) -> Any:
        # An HDF5 file is read in Keras' older format, which does not know optimizers of a package by `class_name`.
        registered = tf_keras.saving.get_registered_object(config.get("registered_name"), custom_objects)
        if registered is not None:
            return registered.from_config(config["config"])
        return tf_keras.optimizers.deserialize(config, custom_objects=custom_objects)

    lr = wrapper.Wrapper.learning_rate

    # What Keras reads from a `.h5` file.
    _variables = wrapper.Wrapper.variables


@_registered
class Adasum(adasum.Adasum, Wrapper): ...


@_registered
class LocalSteps(local_steps.LocalSteps, Wrapper): ...


for _rule in registry.own_rules():
    Face.of_rule(_rule)
