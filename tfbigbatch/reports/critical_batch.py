"""The critical batch size that a run's `GradientNoiseScale` measured, for the plot of updates against batch size."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class CriticalBatch:
    """At the last look of one run.

    Attributes:
      name: of the row that the run belongs to.
      batch_size: that it was trained at.
      step: the update of the look.
      value: the critical batch size, in examples.
      low, high: ends of its interval; `high` is infinite where the data leave it open.
    """

    name: str
    batch_size: int
    step: int
    value: float
    low: float
    high: float

    @property
    def shown(self):
        """In words, as: LEGW at 512, update 100: 340 (210 to 600)."""
        high = f"{self.high:,.0f}" if math.isfinite(self.high) else "∞"
        return (
            f"{self.name} at {self.batch_size:,}, update {self.step:,}: {self.value:,.0f} ({self.low:,.0f} to {high})"
        )


def of_row(row, scalars):
    """The CriticalBatch of a row's first run that has one; None where none has.

    Args:
      row: `runs.Row`.
      scalars: function of a `runs.Run` that gives its `Scalars`.
    """
    for run in row.runs:
        seen = scalars(run)
        value, step = seen.last("train", "noise_scale/critical_batch_size")
        # While |G|^2 is not estimated above 0 there is none.
        if value is not None and value > 0.0:
            low, high = (seen.series("train", f"noise_scale/{end}").get(step) for end in ("low", "high"))
            # An end that is open is not in the log.
            return CriticalBatch(row.name, row.batch_size, step, value, low or 0.0, high or math.inf)
    return None
