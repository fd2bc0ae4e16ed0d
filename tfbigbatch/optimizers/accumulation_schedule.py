"""The number of micro-batches in each optimizer step, where it changes while a model trains: a batch ramp for `fit`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.ops import of
from tfbigbatch.utils import arguments


@dataclasses.dataclass(unsafe_hash=True)
class AccumulationSchedule:
    """Micro-batches of every optimizer step, in stages: the `accumulation_steps` of LARS, LAMB, Muon and Shampoo.

    `fit` keeps its batch, and with it its one compiled shape; the optimizer applies the mean over 1, 2, 4, ... of them.
    `scaling.BatchRamp.accumulation` makes the schedule of a ramp. Its config is part of the optimizer's, in both Keras.

    Args:
      micro_batches: micro-batches in a step of each stage, 1 or more.
      steps: optimizer steps of each stage, 1 or more; the last stage continues.

    Raises:
      ValueError: a number cannot be used, there is no stage, or the two differ in length.
    """

    micro_batches: Sequence[int]
    steps: Sequence[int]

    def __post_init__(self) -> None:
        label = type(self).__name__
        self.micro_batches = tuple(arguments.integers("micro_batches", self.micro_batches, least=1, owner=label))
        self.steps = tuple(arguments.integers("steps", self.steps, least=1, owner=label))
        if not self.steps or len(self.micro_batches) != len(self.steps):
            raise InputError(
                f"{label}: micro_batches={list(self.micro_batches)} for stages of {list(self.steps)} steps; expected "
                "one number of micro-batches for each stage, and at least one stage."
            )

    def __call__(self, step: Any) -> Any:
        """The micro-batches of an optimizer step, counted from 0: an integer tensor of the shape of `step`."""
        ops = of(step)
        step = ops.cast(step, ops.INTEGER)
        count = ops.zeros_like(step) + self.micro_batches[0]
        starts = itertools.accumulate(self.steps[:-1])
        for start, (before, after) in zip(starts, itertools.pairwise(self.micro_batches)):
            count += ops.cast(step >= start, ops.INTEGER) * (after - before)
        return count

    def micro_batches_before(self, step: int) -> int:
        """All micro-batches of the optimizer steps before one, counted from 0."""
        step = arguments.integer("step", step, least=0, owner=type(self).__name__)
        found, left = 0, step
        for count, steps in zip(self.micro_batches[:-1], self.steps[:-1]):
            found += count * min(left, steps)
            left -= min(left, steps)
        return found + self.micro_batches[-1] * left

    def get_config(self) -> dict[str, Any]:
        return {"micro_batches": list(self.micro_batches), "steps": list(self.steps)}
