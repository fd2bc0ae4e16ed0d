"""Files of measurements, a JSON object in each line, that a command resumes from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from tfbigbatch.errors import InputError

T = TypeVar("T")


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
        with open(path, encoding="utf-8") as file:
            return [of_json(json.loads(line)) for line in file]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as {what} ({type(error).__name__}: {error}). Expected the file that tfbigbatch "
            f"{command} wrote; name another, or move it away."
        ) from None
