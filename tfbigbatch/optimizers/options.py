"""Arguments that LARS and LAMB share in Keras 2 and Keras 3, and their checks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import exclusions
from tfbigbatch.optimizers.accumulation_schedule import AccumulationSchedule
from tfbigbatch.optimizers.arguments import KERAS3, Argument, LayerwiseArguments, unknown
from tfbigbatch.optimizers.base import Rule

_Init = TypeVar("_Init", bound=Callable[..., None])
_Class = TypeVar("_Class", bound=type)

# What Keras prints for an optimizer that it does not know, and so the error of the wrong Keras.
DESCRIPTION = (
    "tfbigbatch.optimizers.{own}.{0}; a model of the other Keras takes tfbigbatch.optimizers.{other}.{0} "
    "(tfbigbatch.{0} is that of the tf.keras in use, which TF_USE_LEGACY_KERAS=1 makes tf_keras)"
)
WRONG_KERAS = (
    "{0} was given {variable!r}, a variable of the other Keras: use tfbigbatch.optimizers.{other} for this model."
)

_SHARED_ARGUMENTS = """exclude_from_weight_decay: {weight_decay}
      {layer_adaptation}accumulation_steps: micro-batches in a step, with any `fit`; or a schedule of them, from
        `scaling.BatchRamp.accumulation`. The mean of their gradients is applied at the last; every micro-batch
        costs a reduction over the replicas (`optimizers.accumulate_gradients` needs one a step). `iterations`
        counts steps.
      layer_statistics: keep each layer's trust ratio and norms for `layer_statistics()`.
      shard_updates: each replica has the state of its share of the layers, updates these, and sends them to the others
        (ZeRO's first stage; `optimizers.sharded_updates`). The weights are the same. MirroredStrategy and
        MultiWorkerMirroredStrategy.
      jit_compile: compile each layer's step with XLA; None means where a GPU is visible.
      clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency, name:
        as in Keras. Clipping follows the sum over micro-batches and replicas."""


_EXCLUDED = """'norm_and_bias', biases and what normalisation layers own; or regular expressions,
        searched in the variables' paths. [] or None: nothing is excluded."""
_NOT_EXCLUDED = """regular expressions, searched in the variables' paths; or 'norm_and_bias', biases and
        what normalisation layers own. None or []: nothing is excluded."""
_OF_LAYER_ADAPTATION = """exclude_from_layer_adaptation: likewise; None means the same as weight decay, [] means none. A
        pattern that matches nothing warns when the variables are known.
      """


def with_shared_arguments(docstring: str, *, layer_adaptation: bool = True) -> str:
    """The docstring of an optimizer with the arguments that all of them take, or all without layer adaptation."""
    shared = _SHARED_ARGUMENTS.replace("{weight_decay}", _EXCLUDED if layer_adaptation else _NOT_EXCLUDED)
    shared = shared.replace("{layer_adaptation}", _OF_LAYER_ADAPTATION if layer_adaptation else "")
    return docstring.replace("{shared}", shared)


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """The arguments after their checks; see `with_shared_arguments`."""

    exclude_from_weight_decay: Sequence[str] | str | None
    exclude_from_layer_adaptation: Sequence[str] | str | None
    accumulation_steps: int | AccumulationSchedule
    layer_statistics: bool
    jit_compile: bool | None
    shard_updates: bool

    @classmethod
    def taken_from(cls, arguments: dict[str, Any]) -> LayerOptions:
        """The options among an optimizer's arguments, which are left with the others."""
        return cls(**{each.name: arguments.pop(each.name, None) for each in dataclasses.fields(cls)})

    @property
    def accumulates(self) -> bool:
        """True if any step may be of several micro-batches."""
        return self.accumulation_steps != 1

    def of_layer(self, path: str, may_decay: bool) -> tuple[bool, bool]:
        """(True if weight decay applies to a layer, True if layer adaptation does).

        Args:
          path: of the variable in its model.
          may_decay: False where Keras' own method excluded it from weight decay.
        """
        decay = may_decay and not exclusions.is_excluded(path, self.exclude_from_weight_decay)
        # None means the same layers as weight decay; an empty list means that none is excluded.
        adapted = self.exclude_from_layer_adaptation
        return decay, decay if adapted is None else not exclusions.is_excluded(path, adapted)

    def warn_of_idle_patterns(self, paths: Sequence[str]) -> None:
        """Warns of each pattern that matches none of the paths of the variables."""
        for name in ("exclude_from_weight_decay", "exclude_from_layer_adaptation"):
            exclusions.warn_of_idle(name, getattr(self, name), paths)

    def config(self) -> dict[str, Any]:
        """The options for `get_config`, of plain types."""
        config = dataclasses.asdict(self)
        if isinstance(self.accumulation_steps, AccumulationSchedule):
            config["accumulation_steps"] = self.accumulation_steps.get_config()
        return config


def check_schedules(label: str, is_schedule: Callable[[Any], bool], **hyperparameters: Any) -> None:
    """Raises ValueError for a hyperparameter that is a schedule of the other Keras."""
    for argument, value in hyperparameters.items():
        if not is_schedule(value) and "LearningRateSchedule" in [cls.__name__ for cls in type(value).__mro__]:
            raise ValueError(
                f"{label}: {argument} is a schedule of the other Keras, {type(value).__module__}."
                f"{type(value).__name__}; take one of the Keras that the optimizer is for."
            )


def check_gradient(label: str, name: str, gradient: Any, variable: Any) -> None:
    """Raises ValueError for a variable that holds no floating-point numbers, or a gradient of another shape."""
    dtype = getattr(variable.dtype, "name", variable.dtype)
    if "float" not in dtype:
        raise ValueError(
            f"{label}: {name!r} is of {dtype}, which a step would round to whole numbers. Make it with "
            "trainable=False, or leave it out of the gradients."
        )
    if getattr(gradient.shape, "rank", 0) is None:
        return
    shape, own = tuple(variable.shape), tuple(gradient.shape)
    if len(own) != len(shape) or any(size not in (None, expected) for size, expected in zip(own, shape)):
        raise ValueError(
            f"{label}: the gradient of {name!r} is of shape {tuple(gradient.shape)}, the variable of "
            f"{tuple(variable.shape)}. Give the gradient of each variable beside it, in the same order."
        )


def checked(table: Mapping[str, Argument], positional: Sequence[str]) -> Callable[[_Init], _Init]:
    """Decorator of an `__init__`: checks every argument that comes, by name and value.

    Args:
      table: the arguments and their checks.
      positional: names of those that may come by position.
    """

    def decorate(init: _Init) -> _Init:
        @functools.wraps(init)
        def checked_init(self: Any, *values: Any, **named: Any) -> None:
            init(self, **_given(type(self).__name__, table, positional, (), values, named))

        return cast(_Init, checked_init)

    return decorate


def _given(
    label: str,
    table: Mapping[str, Argument],
    positional: Sequence[str],
    unchecked: Sequence[str],
    values: Sequence[Any],
    named: Mapping[str, Any],
) -> dict[str, Any]:
    """The arguments by name, with what the checks of the table make of their values."""
    known = {*positional, *table}
    if len(values) > len(positional):
        raise InputError(
            f"{label}: {', '.join(map(repr, values[len(positional) :]))} came without a name; only "
            f"{' and '.join(positional)} may. The others are {', '.join(sorted(known - set(positional)))}."
        )
    by_position = dict(zip(positional, values))
    for name, value in named.items():
        if name in by_position:
            raise InputError(f"{label}: {name} came twice, as {by_position[name]!r} and as {value!r}.")
        if name not in known and name not in unchecked:
            raise unknown(label, name, value, known)
    given = {**by_position, **named}
    return {name: table[name].check(label, name, value) if name in table else value for name, value in given.items()}


def with_rule(rule: type[Rule]) -> Callable[[_Class], _Class]:
    """Class decorator: a constructor of this signature, which checks its arguments and makes a rule of its own.

    The rule's fields are attributes of the optimizer, such as `LAMB.beta_1`. An optimizer of one Keras is of this class
    first, then of its `LayerwiseOptimizer`, whose constructor gets the rule and the other arguments.
    """

    def attribute(name: str) -> property:
        def change(optimizer: Any, value: Any) -> None:
            own, label = optimizer.updater.rule, type(optimizer).__name__
            if name in own.of_state and optimizer.updater.is_built:
                raise InputError(
                    f"{label}: {name} cannot be changed now: the state was made for {name}={getattr(own, name)!r}. "
                    f"Give it to another {label}, or set it before the first step."
                )
            setattr(own, name, value)

        return property(lambda optimizer: getattr(optimizer.updater.rule, name), change)

    def decorate(optimizer: _Class) -> _Class:
        names = [field.name for field in dataclasses.fields(rule)]  # type: ignore[arg-type]
        init = optimizer.__init__  # type: ignore[misc]

        @functools.wraps(init)
        def made(self: Any, *values: Any, **named: Any) -> None:
            table = {**rule.arguments, **self.of_keras}
            given = {"name": rule.__name__, **{name: each.default for name, each in table.items()}}
            given.update(_given(type(self).__name__, table, ["learning_rate"], self.unchecked, values, named))
            own = rule(**{name: given.pop(name) for name in names})
            super(optimizer, self).__init__(rule=own, **given)  # type: ignore[arg-type]

        made.__signature__ = _whole_signature(init, {**rule.arguments, **KERAS3})  # type: ignore[attr-defined]
        optimizer.__init__ = made  # type: ignore[misc]
        for name in names:
            setattr(optimizer, name, attribute(name))
        return optimizer

    return decorate


def _whole_signature(init: Callable[..., None], table: Mapping[str, Argument]) -> inspect.Signature:
    """The signature of an `__init__` with the arguments of the table in place of its `**kwargs`, for editors."""
    found = inspect.signature(init)
    parameters = [each for each in found.parameters.values() if each.kind is not each.VAR_KEYWORD]
    types = {name: each.__forward_arg__ for name, each in LayerwiseArguments.__annotations__.items()}
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=types[name])
        for name, each in table.items()
        if name not in found.parameters
    ]
    return found.replace(parameters=parameters)
