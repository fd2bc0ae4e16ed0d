"""Files of measurements, a JSON object in each line, that a command resumes from."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import open_regular, write_text

T = TypeVar("T")
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "None": (type(None),)}


def read(path: str, of_json: Callable[[dict[str, Any]], T], *, command: str) -> list[T]:
    """The measurements in a file that `write` wrote; [] where there is none.

    Args:
      path: of the file.
      of_json: makes a measurement, a dataclass, of the content of a line.
      command: that wrote the file, for the error.

    Raises:
      ValueError: the file holds something else, or a number or text of another type than the dataclass declares.
    """
    if not os.path.exists(path):
        return []
    try:
        with open_regular(path, encoding="utf-8") as file:
            contents = [json.loads(line) for line in file]
        return [
            _checked(of_json({name: math.inf if value == "inf" else value for name, value in content.items()}))
            for content in contents
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Expected the file that tfbigbatch {command} "
            "wrote; name another, or move it away."
        ) from None


def write(path: str, contents: Iterable[Mapping[str, Any]]) -> None:
    """Writes a line for each measurement; infinity as the string 'inf', since JSON has none."""
    rows = ({name: "inf" if value == math.inf else value for name, value in content.items()} for content in contents)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _checked(measurement: T) -> T:
    """The measurement, if its numbers and texts are of the types that it declares, and whole ones of 64 bits."""
    for field in dataclasses.fields(measurement):  # type: ignore[arg-type]
        names = str(field.type).split(" | ")
        value = getattr(measurement, field.name)
        if not set(names) <= _KINDS.keys():
            continue
        kinds = tuple(kind for name in names for kind in _KINDS[name])
        if type(value) not in kinds or (type(value) is int and not -(2**63) <= value < 2**63):
            raise TypeError(f"{field.name} is {value!r:.50}, expected {field.type}")
    return measurement
