"""Files of measurements, a JSON object in each line, that a command resumes from."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import open_regular

T = TypeVar("T")
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "None": (type(None),)}


def read(path: str, of_json: Callable[[Any], T], *, what: str, command: str) -> list[T]:
    """The measurements in a file; [] where there is none.

    Args:
      path: of the file.
      of_json: makes a measurement of the content of a line.
      what: they are, for the error.
      command: that wrote the file, for the error.

    Raises:
      ValueError: the file holds something else.
    """
    if not os.path.exists(path):
        return []
    try:
        with open_regular(path, encoding="utf-8") as file:
            return [of_json(json.loads(line)) for line in file]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as {what} ({type(error).__name__}: {error}). Expected the file that tfbigbatch "
            f"{command} wrote; name another, or move it away."
        ) from None


def checked(measurement: T) -> T:
    """A measurement, a dataclass, whose numbers and texts are of the types that it declares; whole ones of 64 bits.

    Raises:
      TypeError: one is of another.
    """
    for field in dataclasses.fields(measurement):  # type: ignore[arg-type]
        names = str(field.type).split(" | ")
        value = getattr(measurement, field.name)
        if not set(names) <= _KINDS.keys():
            continue
        kinds = tuple(kind for name in names for kind in _KINDS[name])
        if type(value) not in kinds or (type(value) is int and not -(2**63) <= value < 2**63):
            raise TypeError(f"{field.name} is {value!r:.50}, expected {field.type}")
    return measurement
