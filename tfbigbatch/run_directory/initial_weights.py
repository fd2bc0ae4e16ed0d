"""Weights of another run for a new run."""

from __future__ import annotations

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import weights

_SHOWN = 8


def load_into(network: keras.Model, path: str) -> list[str]:
    """Assigns the values of a checkpoint to a network's variables of the same path and shape.

    Args:
      network: built.
      path: the result of `stored_run.checkpoint_at`.

    Returns:
      Lines on the variables that have a value now, and on those that do not fit, for the run's banner.

    Raises:
      ValueError: nothing matches, or the checkpoint cannot be read.
    """
    try:
        values = weights.read(path)
    except InputError as error:
        raise InputError(f"--init_from: {error}") from None
    variables = weights.by_path(network)
    there = [name for name in variables if name in values]
    matched = [name for name in there if variables[name].shape == values[name].shape]
    lines = [f"init       {len(matched)} of {len(variables)} variables from {path}; the optimizer starts fresh"]
    shapes = {name: f"{name} {list(variables[name].shape)}, there {list(values[name].shape)}" for name in there}
    for reason, names in {
        "other shape": [shapes[name] for name in there if name not in matched],
        "not there": [name for name in variables if name not in values],
        "not used": sorted(set(values) - set(variables)),
    }.items():
        if names:
            more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"           {reason}: {', '.join(names[:_SHOWN])}{more}")
    if not matched:
        raise InputError(
            f"--init_from: no variable of {path} has the path and shape of one of this network:\n"
            + "\n".join(lines[1:])
        )
    for name in matched:
        variables[name].assign(values[name])
    return lines
