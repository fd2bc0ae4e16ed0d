"""The batch ramp to begin with, and critical batches that were measured by branching."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tfbigbatch.advice.noise import Range
from tfbigbatch.errors import InputError
from tfbigbatch.scaling.batch_ramp import BatchRamp
from tfbigbatch.scaling.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Branched:
    """A critical batch measured by branching; see `tfbigbatch critical-batch`.

    Attributes:
      examples: of the run before the checkpoint.
      critical: in examples; infinity beyond the largest branch.
      largest: batch size of the branches.
    """

    examples: int
    critical: Range
    largest: int

    @property
    def lower_bound(self) -> float:
        """The critical batch, or the largest branch where it is beyond."""
        return min(self.critical.value, float(self.largest))


def over_the_run(branched: Sequence[Branched]) -> Range:
    """The critical batch of a run: the geometric mean over its checkpoints, with that of the intervals' ends."""
    ends = [(each.lower_bound, min(each.critical.low, float(each.largest)), each.critical.high) for each in branched]
    return Range(*(math.exp(sum(map(math.log, values)) / len(values)) for values in zip(*ends)))


@dataclasses.dataclass(frozen=True)
class RampAdvice:
    """A ramp with its reason.

    Attributes:
      ramp: from the tuned batch.
      fields: the `--config.` flags that make it.
      steps: of the run.
      reason: one sentence.
    """

    ramp: BatchRamp
    fields: str
    steps: int
    reason: str


def ramp_of(
    tuned: Recipe, batch_size: int, *, dataset_size: int, at_start: float, branched: Sequence[Branched]
) -> RampAdvice | None:
    """The ramp to begin with; None where the recipe has no length, or where none is needed or possible.

    Args:
      tuned: the recipe, at the batch that the ramp begins with.
      batch_size: that is worth using.
      dataset_size: examples in an epoch.
      at_start: the gradient noise scale early in the run, in examples.
      branched: measured critical batches in the order of the run; () for none.
    """
    if tuned.epochs is None:
        return None
    try:
        if branched:
            measured = [(f"{each.examples} examples", each.lower_bound) for each in branched]
            ramp = BatchRamp.following(tuned, measured, most=dataset_size)
            if not ramp.growth:
                return None
            growth = ",".join(f"({duration!r},{size})" for duration, size in ramp.growth)
            fields = f'--config.ramp.name=growth "--config.ramp.growth=({growth},)"'
            reason = "the batch follows the critical batch that was measured by branching"
        elif batch_size > max(tuned.batch_size, at_start):
            over = f"{tuned.epochs / 2:.4g} epochs"
            ramp = BatchRamp.doubling(tuned, batch_size, over=over)
            fields = f"--config.ramp.name=doubling --config.ramp.to={batch_size} --config.ramp.over='{over}'"
            reason = (
                f"the noise scale of {at_start:,.3g} early in the run is below {batch_size:,}, and it grows; batches "
                "that double over half of the run have the small ones where they are needed"
            )
        else:
            return None
        steps = ramp.total_steps(dataset_size)
    except InputError:
        # Too few steps, or a batch that doublings do not reach.
        return None
    # An experiment's own batch may be another than that of its recipe.
    return RampAdvice(ramp, f"--config.batch_size={tuned.batch_size} {fields}", steps, reason)
