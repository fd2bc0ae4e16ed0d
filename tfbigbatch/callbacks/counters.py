"""Counters of Keras callbacks, such as the patience that EarlyStopping has left."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np


def counters(callback: Any) -> dict[str, Any]:
    """The attributes of a callback that JSON holds, except its constructor's arguments, which Keras may change."""
    found = {}
    for name, value in _own(callback).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if plain is None or isinstance(plain, (bool, int, float, str)):
            found[name] = plain
    return found


def arrays(callback: Any) -> dict[str, list[np.ndarray]]:
    """The attributes of a callback that are lists of arrays, such as EarlyStopping's `best_weights`."""
    return {
        name: list(value)
        for name, value in _own(callback).items()
        if isinstance(value, (list, tuple)) and value and all(isinstance(each, np.ndarray) for each in value)
    }


def _own(callback: Any) -> dict[str, Any]:
    arguments = inspect.signature(type(callback)).parameters
    return {name: value for name, value in vars(callback).items() if name not in arguments}
