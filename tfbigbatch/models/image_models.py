"""Image classifiers by name, each with the fields that an experiment may set.

Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbigbatch.errors import InputError, nearest

if TYPE_CHECKING:
    import keras

# Arguments that `build` gives, which are no fields of a model.
_GIVEN = ("image_size", "classes", "cross_replica_norm", "name")


class _Model(NamedTuple):
    """A user's function or one of `tfbigbatch.models`, as 'module.function'; the arguments that the name fixes; and the
    fields with their defaults."""

    function: Callable[..., Any] | str
    fixed: dict[str, Any]
    fields: dict[str, Any]


_ALEXNET = {"stem": "11x11_stride4", "width": 96, "fc_units": 4096, "groups": 2, "dropout": 0.5}
_RESNET = {"stem": "7x7_pool", "width": 64, "recompute": False}
# For small images.
_SMALL = {"version": 1, "stem": "3x3", "width": 16, "recompute": False}
_MODELS = {
    "alexnet": _Model("alexnet.alexnet", {"norm": "local_response"}, _ALEXNET),
    "alexnet_bn": _Model("alexnet.alexnet", {"norm": "batch"}, _ALEXNET),
    "resnet": _Model("resnet.resnet", {}, {"blocks": (2, 2, 2, 2), "bottleneck": False, **_SMALL}),
    "resnet_cifar": _Model("resnet.cifar_resnet", {}, {"depth": 20, **_SMALL}),
}
# The residual networks of He et al. 2015 by depth: blocks in each stage, and whether they are bottlenecks.
for _depth, _blocks, _bottleneck in (
    (14, (1, 1, 1, 1), True),
    (18, (2, 2, 2, 2), False),
    (34, (3, 4, 6, 3), False),
    (50, (3, 4, 6, 3), True),
    (101, (3, 4, 23, 3), True),
    (152, (3, 8, 36, 3), True),
):
    for _version, _suffix in ((1, ""), (2, "_v2")):
        _fixed = {"blocks": _blocks, "bottleneck": _bottleneck, "version": _version}
        _MODELS[f"resnet{_depth}{_suffix}"] = _Model("resnet.resnet", _fixed, _RESNET)
NAMES = sorted(_MODELS)
"""The registered names, sorted; a user's own are added to it."""
_BUILT_IN = frozenset(NAMES)


def register_image_model(name: str, function: Callable[..., Any]) -> None:
    """Makes an image classifier of your own known by a name: `new_config('image_classification', model=name)`.

    An experiment file calls this outside of its functions. Registering a name again replaces the model.

    Args:
      name: in lower case; the config's `model.name`.
      function: returns a keras.Model (Keras 3) from uint8 [batch, image_size, image_size, 3] to logits [batch,
        classes]. It is called with `image_size`, `classes` and its fields, and with `cross_replica_norm` and `name`
        where it has such arguments. Its arguments with defaults are the fields that an experiment may set.

    Raises:
      ValueError: the name is one of this package's own or not in lower case, or the function lacks an argument.
    """
    if not isinstance(name, str) or not name or name != name.lower():
        raise InputError(f"register_image_model: name={name!r}; expected a name in lower case, as 'my_model'.")
    if name in _BUILT_IN:
        raise InputError(f"register_image_model: {name!r} is a model of tfbigbatch. Choose another name.")
    if not callable(function):
        raise InputError(f"register_image_model: {name!r} is {function!r}; expected a function that returns a model.")
    takes = inspect.signature(function).parameters
    lacking = [field for field in ("image_size", "classes") if field not in takes]
    if lacking and not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        raise InputError(f"register_image_model: the function of {name!r} takes no {', '.join(lacking)}.")
    given = {each.name: each.default for each in takes.values() if each.default is not each.empty}
    fields = {field: value for field, value in given.items() if field not in _GIVEN}
    _MODELS[name] = _Model(function, {}, fields)
    NAMES[:] = sorted(_MODELS)


def defaults(name: str) -> dict[str, Any]:
    """The fields of a model that an experiment may set, with their defaults.

    Raises:
      ValueError: the name is unknown.
    """
    if name not in _MODELS:
        raise InputError(f"model {name!r} is unknown. {nearest(name, NAMES)}")
    return dict(_MODELS[name].fields)


def build(name: str, *, image_size: int, classes: int, cross_replica_norm: bool = False, **fields: Any) -> keras.Model:
    """The Keras model registered under `name`.

    Args:
      name: one of `NAMES`.
      image_size: pixels of a side.
      classes: number of classes.
      cross_replica_norm: batch normalisation over the batch of all replicas.
      **fields: fields of `defaults(name)` with other values.

    Returns:
      keras.Model from uint8 [batch, image_size, image_size, 3] to float32 logits [batch, classes].

    Raises:
      ValueError: the name or a field is unknown, or a field is out of its range.
    """
    from tfbigbatch.models import own_model

    known = defaults(name)
    for field in fields:
        if field not in known:
            raise InputError(f"model {name!r} has no field {field!r}. {nearest(field, known)}")
    arguments = {"image_size": image_size, "classes": classes, "cross_replica_norm": cross_replica_norm, "name": name}
    function = _MODELS[name].function
    arguments |= {**_MODELS[name].fixed, **known, **fields}
    if isinstance(function, str):
        module, _, attribute = function.partition(".")
        function = getattr(importlib.import_module(f"tfbigbatch.models.{module}"), attribute)
    takes = inspect.signature(function).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in takes.values()):
        arguments = {field: value for field, value in arguments.items() if field in takes}
    own_model.fresh_names()
    return own_model.checked(function(**arguments), f"the function of model {name!r}")
