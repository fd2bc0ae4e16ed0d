"""Optimizers by name: LARS, LAMB, Muon, Shampoo, and Keras' own as baselines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import declared, exclusions, wrapper_arguments
from tfbigbatch.optimizers.aliases import unknown
from tfbigbatch.optimizers.declared import Changing, Declared, Hyperparameter, hyper
from tfbigbatch.optimizers.lamb import LAMB
from tfbigbatch.optimizers.lars import LARS
from tfbigbatch.optimizers.muon import Muon
from tfbigbatch.optimizers.rule import Rule
from tfbigbatch.optimizers.shampoo import Shampoo

_EXCLUDE = "exclude_from_weight_decay"
_SHARD = "shard_updates"


class _OfKeras(Declared):
    """What `get` takes for an optimizer of Keras' own."""

    learning_rate: Changing = hyper(declared.changing, "", default=0.001)
    weight_decay: float | None = hyper(declared.optional(declared.not_negative), "", default=None)
    jit_compile: bool = hyper(declared.flag, "", default=True)
    exclude_from_weight_decay: Any = hyper(declared.patterns, "", default=None)
    clipnorm: float | None = hyper(declared.optional(declared.not_negative), "", default=None)
    clipvalue: float | None = hyper(declared.optional(declared.not_negative), "", default=None)
    global_clipnorm: float | None = hyper(declared.optional(declared.not_negative), "", default=None)
    use_ema: bool = hyper(declared.flag, "", default=False)
    ema_momentum: float = hyper(declared.number(least=0.0, most=1.0), "", default=0.99)
    ema_overwrite_frequency: int | None = hyper(declared.optional(declared.count), "", default=None)


class _KerasAdamW(_OfKeras):
    weight_decay: float | None = hyper(declared.optional(declared.not_negative), "", default=0.004)
    beta_1: float = hyper(declared.fraction, "", default=0.9)
    beta_2: float = hyper(declared.fraction, "", default=0.999)
    epsilon: float = hyper(declared.not_negative, "", default=1e-7)
    amsgrad: bool = hyper(declared.flag, "", default=False)
    shard_updates: bool = hyper(declared.flag, "", default=False)


class _KerasMomentum(_OfKeras):
    learning_rate: Changing = hyper(declared.changing, "", default=0.01)
    momentum: float = hyper(declared.number(least=0.0, most=1.0), "", default=0.9)
    nesterov: bool = hyper(declared.flag, "", default=False)


# A rule of this package is a line here, and a class in the module of each Keras.
_BUILT_IN: dict[str, type[Declared]] = {
    "lamb": LAMB,
    "lars": LARS,
    "muon": Muon,
    "shampoo": Shampoo,
    "adamw": _KerasAdamW,
    "momentum": _KerasMomentum,
}
# Accepted for every optimizer: with what arguments to wrap it, in which class. True: with none.
_WRAPPERS = {
    "adasum": ("Adasum", wrapper_arguments.AdasumArguments.hyperparameters, {"group_size": 8}),
    "local_steps": ("LocalSteps", wrapper_arguments.LocalStepsArguments.hyperparameters, {"every": 32}),
}
WRAPPERS = tuple(_WRAPPERS)
# The user's own, by name.
_registered: dict[str, Callable[..., Any]] = {}


def _maker(name: str, keras: str | None) -> Callable[..., Any]:
    """The class, or function, that makes an optimizer for a Keras."""
    made = _BUILT_IN.get(name) or _registered[name]
    if isinstance(made, type) and issubclass(made, Rule):
        return keras_version.module_for("tfbigbatch.optimizers", keras).of_rule(made)
    theirs = {"adamw": "AdamW", "momentum": "SGD"}
    return getattr(keras_version.keras_package(keras).optimizers, theirs[name]) if name in theirs else made


def _table(name: str) -> dict[str, Hyperparameter]:
    """The hyperparameters of a registered name; empty for an optimizer of the user's own that declares none."""
    made = _BUILT_IN.get(name) or _registered.get(name)
    if isinstance(made, type) and issubclass(made, Declared):
        return {argument: each for argument, each in made.hyperparameters.items() if argument != "name"}
    return {}


def names() -> list[str]:
    """The registered names, sorted."""
    return sorted([*_BUILT_IN, *_registered])


def register(name: str, maker: Callable[..., Any]) -> None:
    """Registers an optimizer of yours under a name, for `get`, and so for experiment and study files.

    An experiment or study file that names it calls this at module level. Registering a name again replaces the
    optimizer.

    Args:
      name: the name, in lower case.
      maker: a `rule.Rule`, which gets a class for each Keras; or an optimizer's class, or a function that names its
        arguments. It is called with keyword arguments: the learning_rate (a number, variable or schedule), and the
        other fields of the config. The trainers need an optimizer of tf_keras.

    Raises:
      ValueError: the name is one of this package's own, or no name; or `maker` cannot be called.
    """
    if not isinstance(name, str) or not name or name != name.lower():
        raise InputError(f"optimizers.register: name={name!r}; expected a name in lower case, as 'my_lamb'.")
    if name in _BUILT_IN:
        raise InputError(f"optimizers.register: {name!r} is an optimizer of tfbigbatch. Choose another name.")
    if not callable(maker):
        raise InputError(f"optimizers.register: {maker!r} cannot be called; expected a class or a function.")
    _registered[name] = maker


def fields(name: str) -> dict[str, Any]:
    """The arguments that `get` takes for a registered name, with their defaults; imports no TensorFlow for our names.

    Args:
      name: a registered name.

    Returns:
      Dictionary of argument to default, in the constructor's order, with `WRAPPERS` at the end. The default of an
      argument that must be given is `inspect.Parameter.empty`.

    Raises:
      ValueError: the name is unknown; the message has the nearest valid one.
    """
    _check_name(name, names())
    if table := _table(name.lower()):
        return {**{argument: each.default for argument, each in table.items()}, **dict.fromkeys(WRAPPERS)}
    defaults = {argument: each.default for argument, each in _parameters(_registered[name.lower()]).items()}
    defaults.pop("name", None)
    return {**defaults, _EXCLUDE: defaults.get(_EXCLUDE), **dict.fromkeys(WRAPPERS)}


def check_fields(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the names and values of arguments for `get` without making the optimizer: needs no TensorFlow.

    Args:
      name: a registered name.
      arguments: dictionary of argument to value. Values are checked for the optimizers of this package and Keras'.

    Returns:
      The arguments as the optimizer has them.

    Raises:
      ValueError: the name, or an argument's name, is unknown, or a value cannot be used.
    """
    checked = _checked(name.lower(), arguments, fields(name))
    _chosen_wrapper(arguments)
    return checked


def _checked(name: str, arguments: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after their checks; raises ValueError for one that is not among `known`, or cannot be used."""
    label, table = f"optimizer {name!r}", _table(name)
    for argument, value in arguments.items():
        if argument not in known:
            raise unknown(label, argument, value, known)
    return {
        argument: table[argument].check(label, argument, value) if argument in table else value
        for argument, value in arguments.items()
    }


def _check_name(name: Any, known: Iterable[str]) -> None:
    if not isinstance(name, str) or name.lower() not in known:
        raise InputError(f"optimizer {name!r} is unknown. {nearest(name, known)}")


def _parameters(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments that a registered optimizer's constructor takes by name, its bases' included."""
    if not isinstance(maker, type):
        return dict(inspect.signature(maker).parameters)
    found: dict[str, inspect.Parameter] = {}
    for cls in maker.__mro__:
        if "__init__" in vars(cls):
            parameters = inspect.signature(vars(cls)["__init__"]).parameters.values()
            for each in parameters:
                if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
                    found.setdefault(each.name, each)
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                break
    # `rule`: given by LARS and LAMB themselves.
    return {name: each for name, each in found.items() if name not in ("self", "mesh", "rule")}


def get(name_or_config: Any, keras: str | None = None, **arguments: Any) -> Any:
    """Makes the optimizer registered under a name.

    Args:
      name_or_config: a name; or a dictionary of its constructor's arguments, with the name under 'name'.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.
      **arguments: the constructor's keyword arguments; they replace those of a dictionary.

    'momentum' is Keras' SGD, with momentum=0.9 by default. Keras' own optimizers take
    exclude_from_weight_decay here as ours do; their get_config does not hold it. 'adamw' is Keras' own, and with
    shard_updates=True `optimizers.AdamW`. All take adasum: True, or a
    dictionary of the arguments of `Adasum`, which then combines the replicas' gradients or updates; or local_steps, a
    dictionary of the arguments of `LocalSteps`.

    Raises:
      ValueError: the name, or an argument's name, is unknown; the message has the nearest valid one.
    """
    if isinstance(name_or_config, dict):
        arguments = {**name_or_config, **arguments}
        name_or_config = arguments.pop("name", None)
    _check_name(name_or_config, names())
    name = name_or_config.lower()
    wrappers = {wrapper: arguments.pop(wrapper, None) for wrapper in WRAPPERS}
    maker = _maker(name, keras)
    shard = arguments.pop(_SHARD, False) if name == "adamw" else False
    if _KerasAdamW.hyperparameters[_SHARD].check(f"optimizer {name!r}", _SHARD, shard):
        # Keras' own gives way to ours where its updates are sharded.
        maker, arguments[_SHARD] = keras_version.module_for("tfbigbatch.optimizers", keras).AdamW, True
    accepted = _parameters(maker)
    excluded = None
    if _EXCLUDE not in accepted:
        excluded = exclusions.check_patterns(_EXCLUDE, arguments.pop(_EXCLUDE, None))
    arguments = _checked(name, arguments, {**accepted, **dict.fromkeys(WRAPPERS)})
    if name == "momentum":
        arguments.setdefault("momentum", 0.9)
    try:
        optimizer = maker(**arguments)
        if excluded:
            optimizer.exclude_from_weight_decay(var_names=_patterns_for_keras(excluded))
        return _wrapped(optimizer, wrappers, keras)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer {name!r}: {error}") from None


def _wrapped(optimizer: Any, wrappers: Mapping[str, Any], keras: str | None) -> Any:
    chosen = _chosen_wrapper(wrappers)
    if chosen is None:
        return optimizer
    wrapper, options = chosen
    return getattr(keras_version.module_for("tfbigbatch.optimizers", keras), _WRAPPERS[wrapper][0])(
        optimizer, **options
    )


def _chosen_wrapper(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """(Name, arguments) of the wrapper that the fields ask for, checked; None for none.

    Raises:
      ValueError: two are asked for, or one with what cannot be its arguments.
    """
    asked = [name for name in WRAPPERS if fields.get(name) is not None and fields[name] is not False]
    if not asked:
        return None
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)}: each decides what the replicas exchange. Set one of them to None.")
    [name] = asked
    value, (wrapper, table, example) = fields[name], _WRAPPERS[name]
    if value is not True and not isinstance(value, Mapping):
        raise InputError(f"{name}={value!r}: expected True, False, or a dictionary such as {example}.")
    options = {} if value is True else dict(value)
    for option in options:
        if option not in table:
            raise InputError(f"{name}.{option}: {wrapper} takes no such argument. {nearest(option, table)}")
        options[option] = table[option].check(name, option, options[option])
    if name == "local_steps" and "every" not in options:
        raise InputError(f"{name}={value!r} lacks 'every', the steps of a round; expected such as {example}.")
    return name, options


def _patterns_for_keras(patterns: Any) -> list[str]:
    """The patterns of variables without weight decay, for Keras' own method: its names may end in ':0'."""
    patterns = exclusions.SETS[patterns] if isinstance(patterns, str) else patterns or ()
    return [re.sub(r"\$$", r"(:\\d+)?$", pattern) for pattern in patterns]
