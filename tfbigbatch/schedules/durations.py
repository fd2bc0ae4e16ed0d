"""Durations such as '40 epochs', converted to optimizer steps."""

from __future__ import annotations

import math
import re

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

# A comma parts thousands: '2,5 epochs' would otherwise be 25.
# An exponent may have a sign, as Python writes it: '9.7e-05', '1e+16'.
_NUMBER = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_FORM = re.compile(rf"\s*({_NUMBER})\s*(epochs?|steps?|examples?)\s*", re.IGNORECASE)


def parsed(duration: str, *, name: str = "duration") -> tuple[float, str]:
    """The number and the unit of a duration: 'epoch', 'step' or 'example'; see `to_steps`.

    Raises:
      ValueError: the duration is not a finite number and one of the three units.
    """
    match = _FORM.fullmatch(duration) if isinstance(duration, str) else None
    if not match:
        raise InputError(
            f"{name}={duration!r} does not say how long: expected a number and its unit, as '40 epochs', "
            "'1000 steps' or '50000 examples'."
        )
    value = float(match[1].replace(",", "").replace("_", ""))
    if math.isinf(value):
        raise InputError(f"{name}={duration!r} is not a finite number of {match[2].lower()}.")
    return value, match[2].lower().rstrip("s")


def to_steps(duration: str, *, batch_size: int, dataset_size: int, name: str = "duration") -> int:
    """The number of optimizer steps in a duration with a unit.

    Args:
      duration: a number and 'epochs', 'steps' (optimizer steps) or 'examples': '2.5 epochs',
        '100 steps', '1_281_167 examples'. A number without a unit is an error.
      batch_size: examples in one step (the global batch).
      dataset_size: examples in one epoch.
      name: the field, for the error message.

    Returns:
      Rounded to the nearest step; at least 1 where the duration is above 0.

    Raises:
      ValueError: the duration is not a number and one of the three units, or a size is not a whole number of 1 or more.
    """
    batch_size = arguments.integer("batch_size", batch_size, least=1)
    dataset_size = arguments.integer("dataset_size", dataset_size, least=1)
    value, unit = parsed(duration, name=name)
    exact = {"epoch": value * dataset_size / batch_size, "step": value, "example": value / batch_size}[unit]
    if math.isinf(exact):
        raise InputError(f"{name}={duration!r} is not a finite number of steps.")
    return max(1, round(exact)) if exact > 0 else 0
