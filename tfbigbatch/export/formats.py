"""The formats of an export. Importing this module does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable

from tfbigbatch.errors import InputError, nearest

FORMATS = {
    "keras2": "keras2.keras",
    "keras3": "keras3.keras",
    "saved_model": "saved_model",
}
"""The file or folder of each format."""
CHECKPOINTS = ("newest", "best")


def check_formats(formats: Iterable[str]) -> tuple[str, ...]:
    """The formats, each once.

    Raises:
      ValueError: one is unknown, or there is none.
    """
    if isinstance(formats, str):
        raise InputError(f"formats={formats!r}: expected a list of names, as [{formats!r}].")
    found = tuple(dict.fromkeys(formats))
    for each in found:
        if each not in FORMATS:
            raise InputError(f"format {each!r} is unknown. {nearest(str(each), FORMATS)}")
    if not found:
        raise InputError(f"no format is named; expected one or more of {', '.join(FORMATS)}.")
    return found
