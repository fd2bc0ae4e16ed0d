"""State of Keras callbacks, such as the patience that EarlyStopping has left and its best weights."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.utils.files import read_arrays


def counters(callback: Any) -> dict[str, Any]:
    """The attributes of a callback that JSON holds, lists and dictionaries too.

    Left out are its constructor's arguments, which Keras may change, and what `fit` tells it.
    """
    own = {name: value.item() if isinstance(value, np.generic) else value for name, value in _own(callback).items()}
    return {name: value for name, value in own.items() if name != "params" and _is_plain(value)}


def _is_plain(value: Any) -> bool:
    """True if JSON gives a value back as it is."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def save_arrays(path: str, callbacks: Sequence[Any]) -> None:
    """Writes the attributes of callbacks that are lists of arrays, such as EarlyStopping's `best_weights`, as .npz."""
    named = {
        f"{number}/{name}/{index}": array
        for number, callback in enumerate(callbacks)
        for name, value in _own(callback).items()
        if isinstance(value, (list, tuple)) and all(isinstance(each, np.ndarray) for each in value)
        for index, array in enumerate(value)
    }
    np.savez(path, **named)


def restore_arrays(path: str, callbacks: Sequence[Any]) -> None:
    """Gives the same callbacks their arrays back, from a file of `save_arrays`."""
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for key, array in read_arrays(path).items():
        number, name, _ = key.split("/")
        found.setdefault((number, name), []).append(array)
    for (number, name), value in found.items():
        setattr(callbacks[int(number)], name, value)


def _own(callback: Any) -> dict[str, Any]:
    arguments = inspect.signature(type(callback)).parameters
    return {name: value for name, value in vars(callback).items() if name not in arguments}
