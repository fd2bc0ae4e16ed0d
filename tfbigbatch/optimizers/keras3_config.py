"""The common parts of Keras 3's optimizers on all backends: arguments that Keras knows, and serialisation."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import arguments, options

_Schedule = keras.optimizers.schedules.LearningRateSchedule


class ConfiguredOptimizer(keras.optimizers.Optimizer):
    """An optimizer of Keras 3 with an `updater`, whose options and rule are part of its config."""

    updater: Any
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
        label = type(self).__name__
        options.check_schedules(label, self.is_schedule, learning_rate=learning_rate, weight_decay=weight_decay)

    def __str__(self) -> str:
        return options.DESCRIPTION.format(type(self).__name__, own="keras3", other="keras2")

    def is_schedule(self, value: Any) -> bool:
        """True for a LearningRateSchedule of Keras 3."""
        return isinstance(value, _Schedule)

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
