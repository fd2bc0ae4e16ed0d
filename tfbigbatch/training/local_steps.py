"""Local steps in a run: what its intervals must be, and where the replicas' weights must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_collections

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.keras3 import LocalSteps
from tfbigbatch.schedules import to_steps
from tfbigbatch.training.phases import Phase


def synchronize(optimizer: Any) -> None:
    """Combines the replicas' changes, at the end of a run with local steps; nothing with another optimizer."""
    if isinstance(optimizer, LocalSteps):
        optimizer.synchronize()


def check(config: ml_collections.ConfigDict, phases: Sequence[Phase]) -> None:
    """Checks what a run with `optimizer.local_steps` needs: whole rounds between two evaluations, and one batch.

    Args:
      config: of the experiment.
      phases: of the run.

    Raises:
      ValueError: the run cannot have local steps as it is.
    """
    fields = config.optimizer.get("local_steps")
    if not fields:
        return
    if config.ramp.name != "none":
        raise InputError(
            f"ramp.name={config.ramp.name!r} with optimizer.local_steps: a round is of as many steps, whatever their "
            "batch. Set ramp.name to 'none', or optimizer.local_steps to None."
        )
    every = fields["every"]
    for number, phase in enumerate(phases, 1):
        where = f"phases, phase {number}: " if len(phases) > 1 else ""
        intervals = {"evaluate_every": phase.every["evaluate"] // phase.config.batch_size}
        if not phase.is_last or number < len(phases):
            intervals["duration"] = phase.total_steps
        for name, instrument in config.instruments.items():
            if instrument.get("enabled") and "every" in instrument:
                intervals[f"instruments.{name}.every"] = to_steps(
                    instrument.every,
                    name=f"instruments.{name}.every",
                    batch_size=phase.config.batch_size,
                    dataset_size=phase.examples_in_epoch,
                )
        for name, steps in intervals.items():
            if steps % every:
                nearest = max(1, round(steps / every)) * every
                raise InputError(
                    f"{where}{name} is {steps} steps, in the middle of a round of {every} "
                    f"(optimizer.local_steps.every), where the replicas' weights differ. Expected a multiple of "
                    f"{every}, such as '{nearest} steps'."
                )


def lines(config: ml_collections.ConfigDict, replicas: int) -> list[str]:
    """The rounds in words, for the run's banner; [] without any.

    Args:
      config: of the experiment.
      replicas: over all workers.
    """
    fields = config.optimizer.get("local_steps")
    if not fields:
        return []
    size = fields.get("group_size", 1)
    workers = f"{replicas // size} groups of {size} replicas" if size > 1 else f"{replicas} replicas"
    return [f"rounds     of {fields['every']} local steps, {workers}, combined by {fields.get('outer', 'average')}"]
