"""Checks of numbers and names that users pass as arguments: one message for what came and what was expected."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from tfbigbatch.errors import InputError, nearest

_MOST_CHARACTERS = 60


def number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    expected: str = "",
    owner: str = "",
) -> float:
    """A finite number as a float: a Python number, or a scalar or 0-d array of NumPy; not a bool or a string.

    Args:
      name: of the argument.
      least, above: the lower bound, included or not.
      most, below: the upper bound, included or not.
      expected: replaces 'a number of 0 or more' in the message.
      owner: the function or class, at the beginning of the message.

    Raises:
      ValueError: it is no number, or outside of the bounds.
    """
    given = _scalar(value)
    bounds = _in_words(least=least, above=above, most=most, below=below)
    expected = expected or f"a finite number{bounds}"
    if not _is_real(given):
        raise _error(owner, name, value, "is not a number", expected)
    result = _as_float(given)
    if not math.isfinite(result) or not _within(result, least, above, most, below):
        raise _error(owner, name, given, "is out of range", expected)
    return result


def integer(
    name: str,
    value: Any,
    *,
    least: int | None = None,
    most: int | None = None,
    expected: str = "",
    owner: str = "",
) -> int:
    """A whole number as an int: as `number`; 1e3 is one as well, 32.5 is not.

    Raises:
      ValueError: it is no whole number, or outside of the bounds.
    """
    given = _scalar(value)
    expected = expected or f"a whole number{_in_words(least=least, most=most)}"
    if not _is_real(given):
        raise _error(owner, name, value, "is not a number", expected)
    if not math.isfinite(_as_float(given)) or given != int(given):
        raise _error(owner, name, given, "is not a whole number", expected)
    if not _within(int(given), least, None, most, None):
        raise _error(owner, name, given, "is out of range", expected)
    return int(given)


def flag(name: str, value: Any, *, owner: str = "") -> bool:
    """True or False, of Python or NumPy.

    Raises:
      ValueError: it is neither.
    """
    given = _scalar(value)
    if not isinstance(given, bool):
        raise _error(owner, name, value, "is neither True nor False", "one of the two")
    return given


def one_of(name: str, value: Any, known: Iterable[str], *, owner: str = "") -> str:
    """A name among the known ones.

    Raises:
      ValueError: it is unknown; the message has the nearest name.
    """
    known = list(known)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{_place(owner, name)}{_shown(value)} is unknown. {nearest(value, known)}")
    return value


def items(name: str, value: Any, *, owner: str = "") -> list[Any]:
    """The items of a list, a tuple, an array or another iterable; not of a string.

    Raises:
      ValueError: it has no items.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _error(owner, name, value, "is not a sequence", "a list or a tuple")
    try:
        return list(value)
    except TypeError:  # An array without axes.
        raise _error(owner, name, value, "is not a sequence", "a list or a tuple") from None


def integers(name: str, value: Any, *, least: int | None = None, owner: str = "") -> list[int]:
    """Whole numbers as a list, each checked by `integer`.

    Raises:
      ValueError: it is no sequence, or an item is no whole number or below `least`.
    """
    return [
        integer(f"{name}[{index}]", item, least=least, owner=owner)
        for index, item in enumerate(items(name, value, owner=owner))
    ]


def _scalar(value: Any) -> Any:
    """A scalar or a 0-d array of NumPy (or of another array library) as a Python number; anything else as it is."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _within(value: float, least: float | None, above: float | None, most: float | None, below: float | None) -> bool:
    return (
        (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
        and (below is None or value < below)
    )


def _in_words(
    *, least: float | None = None, above: float | None = None, most: float | None = None, below: float | None = None
) -> str:
    bounds = {"of {:g} or more": least, "above {:g}": above, "at most {:g}": most, "below {:g}": below}
    return " and".join(f" {words.format(bound)}" for words, bound in bounds.items() if bound is not None)


def _place(owner: str, name: str) -> str:
    return f"{owner}: {name}=" if owner else f"{name}="


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[:_MOST_CHARACTERS]}..."


def _error(owner: str, name: str, value: Any, fault: str, expected: str) -> InputError:
    return InputError(f"{_place(owner, name)}{_shown(value)} {fault}; expected {expected}.")
