"""Optimizers by name: LARS, LAMB, Muon, Shampoo, and Keras' own as baselines."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeGuard

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import declared, exclusions
from tfbigbatch.optimizers.adamw import AdamW
from tfbigbatch.optimizers.aliases import unknown
from tfbigbatch.optimizers.declared import Changing, Declared, hyper
from tfbigbatch.optimizers.lamb import LAMB
from tfbigbatch.optimizers.lars import LARS
from tfbigbatch.optimizers.muon import Muon
from tfbigbatch.optimizers.rule import Rule
from tfbigbatch.optimizers.shampoo import Shampoo
from tfbigbatch.optimizers.wrapper_arguments import AdasumArguments, LocalStepsArguments

_EXCLUDE = "exclude_from_weight_decay"
_LIMIT = declared.optional(declared.not_negative)


class _OfKeras(Declared):
    """What `get` takes for an optimizer of Keras' own, in both Kerases."""

    in_keras: ClassVar[str]

    learning_rate: Changing = hyper(declared.changing, "", default=0.001)
    weight_decay: float | None = hyper(_LIMIT, "", default=None)
    jit_compile: bool = hyper(declared.flag, "", default=True)
    exclude_from_weight_decay: Any = hyper(declared.patterns, "", default=None)
    clipnorm: float | None = hyper(_LIMIT, "", default=None)
    clipvalue: float | None = hyper(_LIMIT, "", default=None)
    global_clipnorm: float | None = hyper(_LIMIT, "", default=None)
    use_ema: bool = hyper(declared.flag, "", default=False)
    ema_momentum: float = hyper(declared.number(least=0.0, most=1.0), "", default=0.99)
    ema_overwrite_frequency: int | None = hyper(declared.optional(declared.count), "", default=None)


class _KerasAdamW(_OfKeras):
    in_keras = "AdamW"

    weight_decay: float | None = hyper(_LIMIT, "", default=0.004)
    beta_1: float = hyper(declared.fraction, "", default=0.9)
    beta_2: float = hyper(declared.fraction, "", default=0.999)
    epsilon: float = hyper(declared.not_negative, "", default=1e-7)
    amsgrad: bool = hyper(declared.flag, "", default=False)
    shard_updates: bool = hyper(declared.flag, "", default=False)


class _KerasMomentum(_OfKeras):
    in_keras = "SGD"

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
# The user's own, by name.
_registered: dict[str, Callable[..., Any]] = {}
# Accepted for every optimizer: the class that is then around it, and its arguments.
_WRAPPERS: dict[str, tuple[str, type[Declared]]] = {
    "adasum": ("Adasum", AdasumArguments),
    "local_steps": ("LocalSteps", LocalStepsArguments),
}
WRAPPERS = tuple(_WRAPPERS)


def names() -> list[str]:
    """The registered names, sorted."""
    return sorted([*_BUILT_IN, *_registered])


def register(name: str, maker: Callable[..., Any]) -> None:
    """Registers an optimizer of yours under a name, for `get`, and so for experiment and sweep files.

    An experiment or sweep file that names it calls this at module level. Registering a name again replaces the
    optimizer.

    Args:
      name: the name, in lower case.
      maker: a `rule.Rule`, which gets a class for each Keras, and loads where it was saved; or an optimizer's class, or
        a function that names its arguments. It is called with keyword arguments: the learning_rate (a number, variable
        or schedule), and the other fields of the config. The trainer needs an optimizer of Keras 3.

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
    for module in ("tfbigbatch.keras2", "tfbigbatch.optimizers.keras3"):
        if _is_rule(maker) and module in sys.modules:
            sys.modules[module].Face.of_rule(maker)


def own_rules() -> list[Any]:
    """The rules that `register` was given: Keras looks the optimizer up when it loads a model."""
    return [each for each in _registered.values() if _is_rule(each)]


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
    defaults = {argument: each.default for argument, each in _parameters(_made_by(name)).items() if argument != "name"}
    return {**defaults, _EXCLUDE: defaults.get(_EXCLUDE), **dict.fromkeys(WRAPPERS)}


def check_fields(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the names and values of arguments for `get` without making the optimizer: needs no TensorFlow.

    Args:
      name: a registered name.
      arguments: dictionary of argument to value. Values are checked for rules and the optimizers of Keras.

    Returns:
      The arguments as the optimizer has them.

    Raises:
      ValueError: the name, or an argument's name, is unknown, or a value cannot be used.
    """
    _wrapper(arguments)
    return _checked(name, arguments, fields(name))


def get(name_or_config: Any, keras: str | None = None, **arguments: Any) -> Any:
    """Makes the optimizer registered under a name.

    Args:
      name_or_config: a name; or a dictionary of its constructor's arguments, with the name under 'name'.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.
      **arguments: the constructor's keyword arguments; they replace those of a dictionary.

    'momentum' is Keras' SGD, with momentum=0.9 by default. Keras' own optimizers take exclude_from_weight_decay here as
    ours do; their get_config does not hold it. 'adamw' is Keras' own, and with shard_updates=True `tfbigbatch.AdamW`.
    All take adasum: True, or a dictionary of the arguments of `Adasum`, which then combines the replicas' gradients or
    updates; or local_steps, a dictionary of the arguments of `LocalSteps`.

    Raises:
      ValueError: the name, or an argument's name, is unknown; the message has the nearest valid one.
    """
    if isinstance(name_or_config, dict):
        arguments = {**name_or_config, **arguments}
        name_or_config = arguments.pop("name", None)
    name, made, wrapper = name_or_config, _made_by(name_or_config), _wrapper(arguments)
    given = {argument: value for argument, value in arguments.items() if argument not in WRAPPERS}
    ours = keras_version.module_for("tfbigbatch.optimizers", keras)
    if made is _KerasAdamW and (shard := given.pop("shard_updates", False)) is not False:
        # Keras' own gives way to ours where its updates are sharded.
        made, given["shard_updates"] = AdamW, shard
    if made is _KerasMomentum:
        given.setdefault("momentum", 0.9)
    maker = made
    if _is_rule(made):
        maker = ours.Face.of_rule(made)
    elif isinstance(made, type) and issubclass(made, _OfKeras):
        maker = getattr(keras_version.keras_package(keras).optimizers, made.in_keras)
    accepted, excluded = _parameters(maker), None
    if _EXCLUDE not in accepted:
        excluded = exclusions.check_patterns(_EXCLUDE, given.pop(_EXCLUDE, None))
    given = _checked(name, given, {**accepted, _EXCLUDE: None, **dict.fromkeys(WRAPPERS)})
    try:
        optimizer = maker(**given)
        if excluded:
            # The names that Keras' own method compares may end in ':0'.
            patterns = [re.sub(r"\$$", r"(:\\d+)?$", pattern) for pattern in exclusions.regexes(excluded)]
            optimizer.exclude_from_weight_decay(var_names=patterns)
        return getattr(ours, wrapper[0])(optimizer, **wrapper[1]) if wrapper else optimizer
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer {name!r}: {error}") from None


def _made_by(name: Any) -> Callable[..., Any]:
    """What a registered name stands for; raises ValueError for another."""
    known: dict[str, Callable[..., Any]] = {**_BUILT_IN, **_registered}
    if not isinstance(name, str) or name.lower() not in known:
        raise InputError(f"optimizer {name!r} is unknown. {nearest(name, known)}")
    return known[name.lower()]


def _is_rule(made: Any) -> TypeGuard[type[Rule]]:
    """True for a rule that is no optimizer of a Keras yet."""
    return isinstance(made, type) and issubclass(made, Rule) and not hasattr(made, "apply_gradients")


def _parameters(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments that an optimizer's constructor takes by name, its bases' included, or a function."""
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
    return {name: each for name, each in found.items() if name not in ("self", "mesh")}


def _checked(name: str, arguments: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after their checks; raises ValueError for one that is not among `known`, or cannot be used."""
    label, declarations = f"optimizer {name.lower()!r}", getattr(_made_by(name), "hyperparameters", {})
    checked = {}
    for argument, value in arguments.items():
        if argument not in known:
            raise unknown(label, argument, value, known)
        checked[argument] = declarations[argument].check(label, argument, value) if argument in declarations else value
    return checked


def _wrapper(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """(Class, its arguments after their checks) of the wrapper that is asked for; None for none.

    Raises:
      ValueError: two are asked for, or one with what cannot be its arguments.
    """
    asked = [name for name in WRAPPERS if arguments.get(name) is not None and arguments[name] is not False]
    if not asked:
        return None
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)}: each decides what the replicas exchange. Set one of them to None.")
    [name] = asked
    value, (wrapper, kind) = arguments[name], _WRAPPERS[name]
    fields = {field: each for field, each in kind.hyperparameters.items() if field != "optimizer"}
    if value is not True and not isinstance(value, Mapping):
        raise InputError(f"{name}={value!r}: expected True, False, or a dictionary of some of {', '.join(fields)}.")
    return wrapper, declared.checked(name, fields, (), {} if value is True else value)
