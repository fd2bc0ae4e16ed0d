"""Patterns on variables' paths that exclude from weight decay and layer adaptation."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.errors import InputError, nearest

# The usual recipe: biases, and whatever a normalisation layer owns.
NORM_AND_BIAS = (r"(^|[/_.])(bias|gamma|beta)(_\d+)?$", r"(?i:(batch|layer|group|instance|rms)_?norm)")
SETS = {"norm_and_bias": NORM_AND_BIAS}


def check_patterns(name: str, patterns: Any) -> tuple[str, ...] | str | None:
    """Validates regular expressions, names of `SETS` among them, or one such name; returns a tuple, the name, or None.

    Raises:
      ValueError: `patterns` is neither a sequence nor the name of a set, or a pattern does not compile.
    """
    if patterns is None:
        return None
    if isinstance(patterns, str):
        if patterns in SETS:
            return patterns
        raise InputError(
            f"{name} takes a list of regular expressions or the name of a set, not {patterns!r}: write "
            f"[{patterns!r}], or one of the sets {', '.join(map(repr, SETS))}. {nearest(patterns, SETS)}"
        )
    if isinstance(patterns, (bytes, Mapping)) or not isinstance(patterns, Iterable):
        raise InputError(
            f"{name}={patterns!r}; expected a list of regular expressions, [] for none, or one of the sets "
            f"{', '.join(map(repr, SETS))}."
        )
    patterns = tuple(patterns)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise InputError(f"{name}: {pattern!r} is not a regular expression ({error}).") from None
    return patterns


def regexes(patterns: Sequence[str] | str | None) -> Sequence[str]:
    """The regular expressions of a list, in which a set's name stands for its own, a set's name or None."""
    listed = [patterns] if isinstance(patterns, str) else patterns or ()
    return [each for pattern in listed for each in SETS.get(pattern, (pattern,))]


def is_excluded(path: str, patterns: Sequence[str] | str | None) -> bool:
    """True where any of `patterns` (a list, a set's name or None) is found in a path such as 'lstm/bias'."""
    return any(re.search(pattern, path) for pattern in regexes(patterns))


def warn_of_idle(
    name: str, patterns: Sequence[str] | str | None, paths: Sequence[str], effect: str = "excludes"
) -> None:
    """Warns of each pattern that none of `paths` contains, with the paths it could have meant; not of a set.

    Args:
      name: of the argument.
      patterns: its value.
      paths: of the variables.
      effect: what a pattern does to the variables that it matches, as a verb.
    """
    # A set is the default, and a model may have none of its variables.
    for pattern in () if isinstance(patterns, str) else patterns or ():
        if pattern in SETS or any(is_excluded(path, [pattern]) for path in paths):
            continue
        warnings.warn(
            f"{name}: {pattern!r} matches none of the {len(paths)} variables, so it {effect} nothing. "
            f"Paths it could have meant: {', '.join(difflib.get_close_matches(pattern, paths, 5, 0.0))}.",
            stacklevel=2,
        )
