"""Image classifiers by name, each with the fields that an experiment may set.

Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.models.sizes import RESNET_DEPTHS

if TYPE_CHECKING:
    import tf_keras

_ALEXNET = {"stem": "11x11_stride4", "width": 96, "fc_units": 4096, "groups": 2, "dropout": 0.5}
_RESNET = {"stem": "7x7_pool", "width": 64}


class _Model(NamedTuple):
    """A function of `tfbigbatch.models`, as 'module.function', its arguments that the name fixes, and its fields."""

    function: str
    fixed: dict[str, Any]
    fields: dict[str, Any]


_MODELS = {
    "alexnet": _Model("alexnet.alexnet", {"norm": "local_response"}, _ALEXNET),
    "alexnet_bn": _Model("alexnet.alexnet", {"norm": "batch"}, _ALEXNET),
    # Small images, and any number of blocks.
    "resnet": _Model(
        "resnet.resnet",
        {},
        {"blocks": (2, 2, 2, 2), "width": 16, "bottleneck": False, "version": 1, "stem": "3x3"},
    ),
    "resnet_cifar": _Model("resnet.cifar_resnet", {}, {"depth": 20, "version": 1, "stem": "3x3", "width": 16}),
}
for _depth in RESNET_DEPTHS:
    for _version, _suffix in ((1, ""), (2, "_v2")):
        _fixed = {"depth": _depth, "version": _version}
        _MODELS[f"resnet{_depth}{_suffix}"] = _Model("resnet.imagenet_resnet", _fixed, _RESNET)


def names() -> list[str]:
    """The registered names, sorted."""
    return sorted(_MODELS)


def builder(name: str) -> Callable[..., tf_keras.Model]:
    """The function that `build` calls for a name, with the arguments that the name fixes.

    Raises:
      ValueError: the name is unknown.
    """
    entry = _entry(name)
    module, _, function = entry.function.partition(".")
    found = getattr(importlib.import_module(f"tfbigbatch.models.{module}"), function)
    return functools.partial(found, **entry.fixed)


def defaults(name: str) -> dict[str, Any]:
    """The fields of a model that an experiment may set, with their defaults.

    Raises:
      ValueError: the name is unknown.
    """
    return dict(_entry(name).fields)


def build(
    name: str, *, image_size: int, classes: int, cross_replica_norm: bool = False, **fields: Any
) -> tf_keras.Model:
    """The Keras model registered under `name`.

    Args:
      name: one of `names()`.
      image_size: pixels of a side.
      classes: number of classes.
      cross_replica_norm: batch normalisation over the batch of all replicas.
      **fields: fields of `defaults(name)` with other values.

    Returns:
      tf_keras.Model from uint8 [batch, image_size, image_size, 3] to float32 logits [batch, classes].

    Raises:
      ValueError: the name or a field is unknown, or a field is out of its range.
    """
    known = _entry(name).fields
    for field in fields:
        if field not in known:
            raise InputError(f"model {name!r} has no field {field!r}. {nearest(field, known)}")
    model: tf_keras.Model = builder(name)(
        image_size=image_size,
        classes=classes,
        cross_replica_norm=cross_replica_norm,
        name=name,
        **{**known, **fields},
    )
    return model


def _entry(name: str) -> _Model:
    if name not in _MODELS:
        raise InputError(f"model {name!r} is unknown. {nearest(name, _MODELS)}")
    return _MODELS[name]
