"""Arguments that LARS and LAMB share in Keras 2 and Keras 3, and their checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch.optimizers import exclusions

# What Keras prints for an optimizer that it does not know, and so the error of the wrong Keras.
DESCRIPTION = (
    "tfbigbatch.optimizers.{own}.{0}; a model of the other Keras takes tfbigbatch.optimizers.{other}.{0} "
    "(tfbigbatch.{0} is that of the tf.keras in use, which TF_USE_LEGACY_KERAS=1 makes tf_keras)"
)
WRONG_KERAS = (
    "{0} was given {variable!r}, a variable of the other Keras: use tfbigbatch.optimizers.{other} for this model."
)

_SHARED_ARGUMENTS = """exclude_from_weight_decay: regular expressions, searched in the variables' paths; or
        'norm_and_bias', the usual recipe. None: nothing is excluded.
      exclude_from_layer_adaptation: likewise; None means the same as weight decay, [] means none. A pattern
        that matches nothing warns when the variables are known.
      accumulation_steps: micro-batches in a step, with any `fit`. The mean of their gradients is applied at
        the last; every micro-batch costs a reduction over the replicas (`optimizers.accumulate_gradients`
        needs one a step). `iterations` counts steps.
      layer_statistics: keep each layer's trust ratio and norms for `layer_statistics()`.
      jit_compile: compile each layer's step with XLA; None means where a GPU is visible.
      clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, name:
        as in Keras. Clipping follows the sum over micro-batches and replicas."""


def with_shared_arguments(docstring: str) -> str:
    """The docstring of an optimizer with the arguments that all of them take."""
    return docstring.replace("{shared}", _SHARED_ARGUMENTS)


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """The arguments after their checks; see `with_shared_arguments`."""

    exclude_from_weight_decay: Sequence[str] | str | None
    exclude_from_layer_adaptation: Sequence[str] | str | None
    accumulation_steps: int
    layer_statistics: bool
    jit_compile: bool | None

    def __post_init__(self) -> None:
        for name in ("exclude_from_weight_decay", "exclude_from_layer_adaptation"):
            # Frozen: a checked copy replaces what was given.
            object.__setattr__(self, name, exclusions.check_patterns(name, getattr(self, name)))

    def config(self) -> dict[str, Any]:
        """The options for `get_config`."""
        return dataclasses.asdict(self)


def checked_weight_decay(weight_decay: Any, label: str) -> Any:
    """A float of 0 or more, or the schedule or callable; None is 0."""
    if callable(weight_decay):
        return weight_decay
    weight_decay = 0.0 if weight_decay is None else float(weight_decay)
    if not weight_decay >= 0.0:
        raise ValueError(f"{label}: weight_decay={weight_decay} is out of range; expected 0 or more.")
    return weight_decay


def check_steps_and_schedules(
    label: str, accumulation_steps: Any, is_schedule: Callable[[Any], bool], **hyperparameters: Any
) -> None:
    """Raises ValueError for a wrong `accumulation_steps`, or a hyperparameter that is a schedule of the other Keras."""
    if isinstance(accumulation_steps, bool) or not isinstance(accumulation_steps, int) or accumulation_steps < 1:
        raise ValueError(
            f"{label}: accumulation_steps={accumulation_steps!r} is not a number of micro-batches; expected an "
            "integer of 1 or more."
        )
    for argument, value in hyperparameters.items():
        if not is_schedule(value) and "LearningRateSchedule" in [cls.__name__ for cls in type(value).__mro__]:
            raise ValueError(
                f"{label}: {argument} is a schedule of the other Keras, {type(value).__module__}."
                f"{type(value).__name__}; take one of the Keras that the optimizer is for."
            )


def with_hyperparameters(rule: type) -> Callable[[type], type]:
    """Class decorator: the fields of an optimizer's rule as attributes of the optimizer, such as `LAMB.beta_1`."""

    def attribute(name: str) -> property:
        return property(
            lambda optimizer: getattr(optimizer.updater.rule, name),
            lambda optimizer, value: setattr(optimizer.updater.rule, name, value),
        )

    def decorate(optimizer: type) -> type:
        for field in dataclasses.fields(rule):
            setattr(optimizer, field.name, attribute(field.name))
        return optimizer

    return decorate
