"""Weights of another run for a new run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.run_directory import weights

_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Matched:
    """The paths of the variables that another model's values fit, and of those that they do not.

    Attributes:
      source: where the values are from.
      matched: paths of the network's variables that were assigned.
      other_shape: paths of those that have another shape there, with both shapes.
      missing: paths of those that the source lacks.
      unused: paths of the source's that the network lacks.
    """

    source: str
    matched: Sequence[str]
    other_shape: Sequence[str]
    missing: Sequence[str]
    unused: Sequence[str]

    def lines(self) -> list[str]:
        """The paths in words, for the run's banner."""
        total = len(self.matched) + len(self.other_shape) + len(self.missing)
        found = [f"init       {len(self.matched)} of {total} variables from {self.source}; the optimizer starts fresh"]
        for reason, names in (
            ("other shape", self.other_shape),
            ("not there", self.missing),
            ("not used", self.unused),
        ):
            if names:
                more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                found.append(f"           {reason}: {', '.join(names[:_SHOWN])}{more}")
        return found


def load_into(network: keras.Model, path: str) -> Matched:
    """Assigns the values of a checkpoint to a network's variables of the same path and shape.

    Args:
      network: built.
      path: the result of `stored_run.checkpoint_at`.

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
    result = Matched(
        source=path,
        matched=matched,
        other_shape=[
            f"{name} {list(variables[name].shape)}, there {list(values[name].shape)}"
            for name in there
            if name not in matched
        ],
        missing=[name for name in variables if name not in values],
        unused=sorted(set(values) - set(variables)),
    )
    if not matched:
        raise InputError(
            f"--init_from: no variable of {path} has the path and shape of one of this network:\n"
            + "\n".join(result.lines()[1:])
        )
    for name in matched:
        variables[name].assign(values[name])
    return result
