"""What the optimizers of both Kerases have in common: a rule as an optimizer of a Keras, but for that Keras' own calls.

`keras3` and `tfbigbatch.keras2` have the rest of it; this module imports neither Keras.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from tfbigbatch.optimizers.declared import is_schedule
from tfbigbatch.optimizers.rule import LayerStatistics, Rule

if TYPE_CHECKING:

    class KerasOptimizer:
        """An optimizer of either Keras to a type checker, which takes any argument for an untyped base class."""

        _place: Any

        def build(self, variables: Any) -> None: ...
        def get_config(self) -> dict[str, Any]: ...
        def __getattr__(self, name: str) -> Any: ...


# The hyperparameters that Keras' own constructor takes; the last is of Keras 3.
_OF_KERAS = ["name", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum", "ema_overwrite_frequency"]
_OF_KERAS += ["loss_scale_factor"]


class Face(Rule):
    """A rule as an optimizer of a Keras, whose step is `step.step`."""

    # The Keras of these optimizers, our module for it, and the one for the other.
    of_keras: ClassVar[Any]
    own: ClassVar[str]
    other: ClassVar[str]
    # Counts micro-batches; None without accumulation.
    micro_steps = None

    def configure(self, values: dict[str, Any]) -> None:
        label, learning_rate = type(self).__name__, values.pop("learning_rate")
        own = self.of_keras.optimizers.schedules.LearningRateSchedule
        for argument, value in (("learning_rate", learning_rate), ("weight_decay", values["weight_decay"])):
            if is_schedule(value) and not isinstance(value, own):
                raise ValueError(
                    f"{label}: {argument} is a schedule of the other Keras, {type(value).__module__}."
                    f"{type(value).__name__}; take one of the Keras that the optimizer is for."
                )
        if values["name"] == "":
            # That of the rule, for a subclass too: names of the state, and so files of it, are the same.
            rules = (each for each in type(self).__mro__ if issubclass(each, Rule) and not issubclass(each, Face))
            values["name"] = next(rules).__name__
        self.construct(learning_rate, **{name: values.pop(name) for name in _OF_KERAS if name in values})
        super().configure(values)
        # Keras' own attribute: a variable, a schedule or a function.
        self._learning_rate: Any
        # The `step.Place` of the backend, which the subclass makes.
        self._place: Any = None

    def construct(self, learning_rate: Any, name: str | None, **of_keras: Any) -> None:
        """Calls Keras' own constructor, without the weight decay: it would apply that outside the trust ratio."""
        raise NotImplementedError

    def __str__(self) -> str:
        # What Keras prints for an optimizer that it does not know, and so the error of the wrong Keras.
        name = type(self).__name__
        return (
            f"tfbigbatch.{self.own}.{name}; a model of the other Keras takes tfbigbatch.{self.other}.{name} "
            f"(tfbigbatch.{name} is that of the tf.keras in use, which TF_USE_LEGACY_KERAS=1 makes tf_keras)"
        )

    def layer_statistics(self) -> dict[str, LayerStatistics]:
        """Each layer's trust ratio and norms at the last step, by path.

        Raises:
          ValueError: the optimizer was made without `layer_statistics=True`, or has not been used.
        """
        if not self.keeps_statistics:
            label = type(self).__name__
            raise ValueError(f"{label} keeps no statistics: make it with {label}(..., layer_statistics=True).")
        return self._place.statistics()

    def get_config(self) -> dict[str, Any]:
        config = self.config(without=("learning_rate", "weight_decay"))
        for name, value in (("learning_rate", self._learning_rate), ("weight_decay", self.weight_decay)):
            if is_schedule(value):
                config[name] = self.of_keras.optimizers.schedules.serialize(value)
            else:
                value = value() if callable(value) else value
                # By its text: 0.1 rather than the 0.10000000149 of float32.
                config[name] = float(str(value.numpy()) if hasattr(value, "numpy") else value)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        config, schedules = dict(config), cls.of_keras.optimizers.schedules
        for name in ("learning_rate", "weight_decay"):
            if isinstance(config.get(name), dict):
                config[name] = schedules.deserialize(config[name], custom_objects=custom_objects)
        # Of Keras 2.
        config.pop("is_legacy_optimizer", None)
        return cls(**config)

    @classmethod
    @functools.cache
    def of_rule(cls, rule: type[Rule]) -> type[Rule]:
        """The optimizer of a rule: a class beside this one, or one made for a rule from elsewhere, and registered."""
        own = vars(sys.modules[cls.__module__]).get(rule.__name__)
        if isinstance(own, type) and issubclass(own, rule):
            return own
        # Under another package: its name may be that of one of ours.
        registered = cls.of_keras.saving.register_keras_serializable("tfbigbatch.own")
        return registered(type(rule.__name__, (rule, cls), {"__module__": rule.__module__}))
