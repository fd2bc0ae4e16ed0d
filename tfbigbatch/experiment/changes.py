"""Changes of a config: unknown fields, and differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_collections

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.schedules import durations

# The fields that say where a config is from; configs that differ in these alone are equal.
_NOT_COMPARED = ("experiment",)


def hold_tuned_batch(config: ml_collections.ConfigDict) -> None:
    """Ends that `schedule.batch_size` follows `batch_size`: a later batch is one that the recipe is scaled to.

    A recipe is tuned at the batch size of its file, unless the file says otherwise; see `fields.new`.
    """
    config.schedule.batch_size = int(config.schedule.batch_size)


def compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """A plain nested config for comparisons, names and keys.

    It has no fields that say where the config is from, and durations are written in one way: '20 step' is '20 steps'.
    """
    return {name: _compared(value) for name, value in config.items() if name not in _NOT_COMPARED}


def _compared(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _compared(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_compared, value))
    return durations.canonical(value) if isinstance(value, str) else value


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
