"""Checks of a network's fields, which name the field, its value and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError


def check_sizes(**sizes: Any) -> None:
    """Raises ValueError for a size that is not a whole number of 1 or more."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"model.{name}={size!r}: expected a whole number of 1 or more.")


def one_of(name: str, given: Any, known: Mapping[Any, Any]) -> Any:
    """known[given].

    Raises:
      ValueError: `known` has no such key.
    """
    if given not in known:
        raise InputError(f"model.{name}={given!r}: expected one of {', '.join(map(repr, known))}.")
    return known[given]
