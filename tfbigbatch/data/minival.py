"""Training examples held out to choose a recipe on, where the held-out data of the set is the test."""

from __future__ import annotations

from typing import Any

from tfbigbatch.errors import InputError


def check(examples: Any, total: int, source: str) -> None:
    """Checks the number of training examples to hold out.

    Args:
      examples: the number.
      total: of the training examples.
      source: of them, for the error.

    Raises:
      ValueError: it is not a whole number in [1, total).
    """
    if not isinstance(examples, int) or not 1 <= examples < total:
        raise InputError(
            f"data.minival={examples!r}: {source} has {total:,} training examples; expected 0, or fewer than that."
        )
