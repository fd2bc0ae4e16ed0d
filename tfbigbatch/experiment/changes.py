"""Changes of a config: overrides by text, unknown fields, and differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_collections

from tfbigbatch.errors import InputError, nearest

_TYPES: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}


# The fields that say where a config is from; configs that differ in these alone are equal.
_NOT_COMPARED = ("experiment",)


def compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """A plain nested config without the fields that say where it is from; for comparisons, names and keys."""
    return {name: value for name, value in config.items() if name not in _NOT_COMPARED}


def unknown_field(config: Any, path: str) -> InputError | None:
    """The error for a dotted `path` that `config` does not have, with the nearest that it has; None if it has it."""
    here, names = config, path.split(".")
    for depth, name in enumerate(names):
        if not isinstance(here, ml_collections.ConfigDict) or name not in here:
            known = list(here.keys()) if isinstance(here, ml_collections.ConfigDict) else []
            inside = f" in {'.'.join(names[:depth])}" if depth else ""
            return InputError(f"--config.{path}: there is no field {name!r}{inside}. {nearest(name, known)}")
        here = here[name]
    return None


def override(config: ml_collections.ConfigDict, assignments: Sequence[str]) -> None:
    """Sets fields of `config` from texts 'field=value', with a dot before an inner field; types are kept.

    Raises:
      ValueError: a text has another form, there is no such field, or the value has another type.
    """
    for assignment in assignments:
        name, given, text = assignment.partition("=")
        if not given:
            raise InputError(f"--override={assignment}: expected FIELD=VALUE, as batch_size=1024.")
        unknown = unknown_field(config, name)
        if unknown:
            raise unknown
        holder, _, last = name.rpartition(".")
        fields = config[holder] if holder else config
        kind = type(fields[last])
        try:
            fields[last] = _TYPES[kind](text)
        except (KeyError, ValueError):
            raise InputError(
                f"--override={assignment}: {name} is {fields[last]!r}; expected another {kind.__name__}."
            ) from None


def differences(config: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Lines 'field: a -> b' for each field that differs between two plain nested configs."""
    one, two = flat(compared(config)), flat(compared(other))
    missing = "(absent)"
    return [
        f"{name}: {one.get(name, missing)} -> {two.get(name, missing)}"
        for name in sorted({*one, *two})
        if one.get(name, missing) != two.get(name, missing)
    ]


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A plain nested dictionary as one of dotted names to values."""
    found = {}
    for name, value in nested.items():
        found.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return found
