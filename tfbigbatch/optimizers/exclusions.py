"""Which variables weight decay and layer adaptation leave out, by patterns on their paths."""

import re


def check_patterns(name, patterns):
    """Validates a list of regular expressions and returns it as a list, None as None.

    Raises:
      ValueError: `patterns` is a bare string, or one of them does not compile.
    """
    if patterns is None:
        return None
    if isinstance(patterns, str):
        raise ValueError(f"{name} takes a list of regular expressions, not one string: write [{patterns!r}].")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"{name}: {pattern!r} is not a regular expression ({error}).") from None
    return list(patterns)


def is_excluded(path, patterns):
    """True where any of `patterns` is found in the variable's path, such as 'lstm/bias'."""
    return any(re.search(pattern, path) for pattern in patterns or ())
