"""The `~` at the beginning of a path: a shell leaves it alone in `--flag=~/x`, and Python and TensorFlow everywhere."""

from __future__ import annotations

import os
from typing import Any, overload


@overload
def expanded(path: str | os.PathLike[str]) -> str: ...
@overload
def expanded(path: None) -> None: ...
def expanded(path: str | os.PathLike[str] | None) -> str | None:
    """A path with the home folder for `~`, or that of a user for `~user`; None for None."""
    return None if path is None else os.path.expanduser(path)


def expanded_texts(value: Any) -> Any:
    """A value with `expanded` texts, also in its lists, tuples and dictionaries; any other value as it is."""
    if isinstance(value, dict):
        return {name: expanded_texts(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(expanded_texts, value))
    return expanded(value) if isinstance(value, str) else value
