"""State of Keras callbacks, such as the patience that EarlyStopping has left and its best weights."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import check_regular


def counters(callback: Any) -> dict[str, Any]:
    """The attributes of a callback that JSON holds, lists and dictionaries too.

    Left out are its constructor's arguments, which Keras may change, and what `fit` tells it.
    """
    found = {}
    for name, value in _own(callback).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if name != "params" and _is_plain(plain):
            found[name] = plain
    return found


def _is_plain(value: Any) -> bool:
    """True if JSON gives a value back as it is."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def save_arrays(path: str, callbacks: Sequence[Any]) -> None:
    """Writes the attributes of callbacks that are lists of arrays, such as EarlyStopping's `best_weights`.

    It is a .npz file; there is none where they have none.
    """
    named = {
        f"{number}/{name}/{index}": array
        for number, callback in enumerate(callbacks)
        for name, value in _own(callback).items()
        if isinstance(value, (list, tuple)) and all(isinstance(each, np.ndarray) for each in value)
        for index, array in enumerate(value)
    }
    if named:
        with open(path, "wb") as file:
            np.savez(file, **named)


def restore_arrays(path: str, callbacks: Sequence[Any]) -> None:
    """Gives the same callbacks their arrays back, from a file of `save_arrays` where there is one.

    Raises:
      ValueError: the file holds something else.
    """
    if not os.path.exists(path):
        return
    found: dict[tuple[int, str], list[np.ndarray]] = {}
    try:
        check_regular(path)
        with np.load(path, allow_pickle=False) as stored:
            for key in stored.files:
                number, name, _ = key.split("/")
                found.setdefault((int(number), name), []).append(stored[key])
    # NumPy's header parser, zipfile and zlib raise dozens of kinds of errors.
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error or type(error).__name__}).") from None
    for (number, name), value in found.items():
        if 0 <= number < len(callbacks) and name in vars(callbacks[number]):
            setattr(callbacks[number], name, value)


def _own(callback: Any) -> dict[str, Any]:
    arguments = inspect.signature(type(callback)).parameters
    return {name: value for name, value in vars(callback).items() if name not in arguments}
