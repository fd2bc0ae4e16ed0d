"""The common parts of Keras 3's optimizers on all backends: arguments that Keras knows, and serialisation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import arguments, options
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule

_Schedule = keras.optimizers.schedules.LearningRateSchedule


class ConfiguredOptimizer(keras.optimizers.Optimizer):
    """An optimizer of Keras 3 with an `updater`, whose options and rule are part of its config."""

    updater: Any
    accumulation_steps: int | AccumulationSchedule
    _micro_steps: Any
    of_keras = arguments.KERAS3
    unchecked = ("name", "gradient_accumulation_steps")

    def __init__(
        self,
        *,
        learning_rate: Any,
        weight_decay: Any,
        name: str,
        gradient_accumulation_steps: int | None = None,
        **arguments: Any,
    ) -> None:
        if gradient_accumulation_steps is not None:
            raise InputError(
                f"{name}: gradient_accumulation_steps={gradient_accumulation_steps} is Keras' own, which clips before "
                f"the replicas are added up and fails under MirroredStrategy. Write "
                f"accumulation_steps={gradient_accumulation_steps}."
            )
        # The base class would apply the decay by itself, outside the trust ratio.
        super().__init__(learning_rate=learning_rate, name=name, weight_decay=None, **arguments)
        self.weight_decay = weight_decay
        # Of variables that a step overwrites with their gradients, by their keys, where it accumulates.
        self._largest: dict[Any, Any] = {}
        label = type(self).__name__
        options.check_schedules(label, self.is_schedule, learning_rate=learning_rate, weight_decay=weight_decay)

    def __str__(self) -> str:
        return options.DESCRIPTION.format(type(self).__name__, own="keras3", other="keras2")

    def is_schedule(self, value: Any) -> bool:
        """True for a LearningRateSchedule of Keras 3."""
        return isinstance(value, _Schedule)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Refused: a step is of all layers."""
        raise InputError(f"{type(self).__name__}.update_step: call apply, or stateless_apply, with all gradients.")

    def _overwrite_variables_directly_with_gradients(
        self, grads: Sequence[Any], vars: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Keras' own part of `apply`: variables that a step overwrites with their gradients, such as float8's scales.

        With accumulation they take the largest of the micro-batches' at the last, as Keras' own accumulation does.
        """
        if not self._largest:
            return super()._overwrite_variables_directly_with_gradients(grads, vars)
        tensor = keras.ops.convert_to_tensor
        is_last = tensor(self._micro_steps) + 1 >= self._micro_batches()
        kept = []
        for gradient, variable in zip(grads, vars):
            if not self._overwrite_variable_with_gradient(variable):
                kept.append((gradient, variable))
                continue
            largest = self._largest[self._var_key(variable)]
            value = keras.ops.maximum(keras.ops.cast(gradient, largest.dtype), tensor(largest))
            variable.assign(keras.ops.where(is_last, keras.ops.cast(value, variable.dtype), tensor(variable)))
            largest.assign(keras.ops.where(is_last, keras.ops.zeros_like(value), value))
        return [gradient for gradient, _ in kept], [variable for _, variable in kept]

    def _micro_batches(self) -> Any:
        """The micro-batches of the current step: a number, or a tensor where there is a schedule of them."""
        steps = self.accumulation_steps
        return steps(keras.ops.convert_to_tensor(self._iterations)) if callable(steps) else steps

    def get_config(self) -> dict[str, Any]:
        with warnings.catch_warnings():
            # Keras would serialise the code of a callable, and warns that this is unsafe: its value is kept.
            warnings.filterwarnings("ignore", "The object being serialized includes a `lambda`")
            config = super().get_config()
        del config["gradient_accumulation_steps"]
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            if self.is_schedule(value):
                config[name] = keras.optimizers.schedules.serialize(value)
            elif callable(value):
                config[name] = float(value())
            elif name == "weight_decay":
                config[name] = value
        return {**config, **self.updater.options.config(), **self.updater.rule.config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config = dict(config)
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = keras.optimizers.schedules.deserialize(config[name], custom_objects=custom_objects)
        return cls(**config)
