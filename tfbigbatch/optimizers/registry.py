"""Optimizers by name: LARS, LAMB, and Keras' own as baselines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import exclusions

_BUILT_IN = ("adamw", "lamb", "lars", "momentum")
_EXCLUDE = "exclude_from_weight_decay"
# Accepted for every optimizer: whether, or with what arguments, to wrap it in Adasum.
_ADASUM = "adasum"
# The user's own, by name.
_registered: dict[str, Callable[..., Any]] = {}


def _makers(keras: str | None) -> dict[str, Callable[..., Any]]:
    ours = keras_version.module_for("tfbigbatch.optimizers", keras)
    theirs = keras_version.keras_package(keras).optimizers
    return {**_registered, "adamw": theirs.AdamW, "lamb": ours.LAMB, "lars": ours.LARS, "momentum": theirs.SGD}


def names() -> list[str]:
    """The registered names, sorted."""
    return sorted([*_BUILT_IN, *_registered])


def register(name: str, maker: Callable[..., Any]) -> None:
    """Registers an optimizer of yours under a name, for `get`, and so for experiment and study files.

    An experiment or study file that names it calls this at module level. Registering a name again replaces the
    optimizer.

    Args:
      name: the name, in lower case.
      maker: its class, or a function that names its arguments; called with keyword arguments: the learning_rate (a
        number, variable or schedule), and the other fields of the config. The trainers need an optimizer of tf_keras.

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


def accepted_arguments(maker: Callable[..., Any]) -> set[str]:
    """The keyword arguments that a registered optimizer's constructor takes, its bases' included."""
    if not isinstance(maker, type):
        return set(inspect.signature(maker).parameters)
    accepted: set[str] = set()
    for cls in maker.__mro__:
        if "__init__" in vars(cls):
            parameters = inspect.signature(vars(cls)["__init__"]).parameters.values()
            accepted.update(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    # `rule`: given by LARS and LAMB themselves.
    return accepted - {"self", "mesh", "rule"}


def get(name_or_config: Any, keras: str | None = None, **arguments: Any) -> Any:
    """Makes the optimizer registered under a name.

    Args:
      name_or_config: a name; or a dictionary of its constructor's arguments, with the name under
        'name'; or what Keras' `optimizers.serialize` gave; or an optimizer, returned as it is.
      keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.
      **arguments: the constructor's keyword arguments; they replace those of a dictionary.

    'momentum' is Keras' SGD, with momentum=0.9 by default. Keras' own optimizers take
    exclude_from_weight_decay here as ours do; their get_config does not hold it. All take adasum: True, or a
    dictionary of the arguments of `Adasum`, which then combines the replicas' gradients or updates.

    Raises:
      ValueError: the name, or an argument's name, is unknown; the message has the nearest valid one.
    """
    makers = _makers(keras)
    if name_or_config is not None and not isinstance(name_or_config, (str, dict)):
        return _made(name_or_config, makers, arguments)
    if isinstance(name_or_config, dict):
        if "class_name" in name_or_config:
            return keras_version.keras_package(keras).optimizers.deserialize(name_or_config)
        arguments = {**name_or_config, **arguments}
        name_or_config = arguments.pop("name", None)
    name = name_or_config.lower() if isinstance(name_or_config, str) else name_or_config
    if name not in makers:
        raise InputError(f"optimizer {name_or_config!r} is unknown. {nearest(name_or_config, makers)}")
    wrap = arguments.pop(_ADASUM, None)
    accepted = accepted_arguments(makers[name])
    excluded = arguments.pop(_EXCLUDE, None) if _EXCLUDE not in accepted else None
    for argument in arguments:
        if argument not in accepted:
            raise InputError(
                f"optimizer {name!r} takes no argument {argument!r}. {nearest(argument, accepted | {_ADASUM})}"
            )
    if name == "momentum":
        arguments.setdefault("momentum", 0.9)
    try:
        optimizer = makers[name](**arguments)
        if excluded:
            optimizer.exclude_from_weight_decay(var_names=_patterns_for_keras(excluded))
        return _wrapped(optimizer, wrap, keras)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer {name!r}: {error}") from None


def _wrapped(optimizer: Any, wrap: Any, keras: str | None) -> Any:
    if wrap is None or wrap is False:
        return optimizer
    if wrap is not True and not isinstance(wrap, dict):
        raise ValueError(f"adasum={wrap!r}: expected True, False, or a dictionary such as {{'group_size': 8}}.")
    wrapper = keras_version.module_for("tfbigbatch.optimizers", keras).Adasum
    options = {} if wrap is True else wrap
    known = accepted_arguments(wrapper) - {"optimizer"}
    for option in options:
        if option not in known:
            raise ValueError(f"adasum.{option}: Adasum takes no such argument. {nearest(option, known)}")
    return wrapper(optimizer, **options)


def _patterns_for_keras(patterns: Any) -> list[str]:
    """The patterns of variables without weight decay, for Keras' own method: its names may end in ':0'."""
    patterns = exclusions.check_patterns(_EXCLUDE, patterns)
    patterns = exclusions.SETS[patterns] if isinstance(patterns, str) else patterns or ()
    return [re.sub(r"\$$", r"(:\\d+)?$", pattern) for pattern in patterns]


def _made(optimizer: Any, makers: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    if not hasattr(optimizer, "apply_gradients"):
        raise InputError(
            f"{optimizer!r} is neither a name ({', '.join(sorted(makers))}), nor a dictionary with one, nor an "
            "optimizer."
        )
    if arguments:
        raise InputError(f"an optimizer that is made already takes no arguments: {', '.join(arguments)}.")
    return optimizer
