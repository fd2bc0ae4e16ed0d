"""The training loss of a run against steps, and how long it stays above that of a constant prediction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# The part of a run over which the loss is averaged before it is compared: a single batch's crosses the line by chance.
SMOOTHED = 0.02


@dataclasses.dataclass(frozen=True)
class LossCurve:
    """A training loss by step.

    Attributes:
      steps: last step of each logged window, ascending.
      losses: mean loss over the window, in nats per token; NaN where it was not finite.
    """

    steps: Sequence[int]
    losses: Sequence[float]

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]], scalar: str, tokens: float = 1.0) -> LossCurve:
        """The curve in the rows of a metrics.jsonl.

        Args:
          rows: from `metrics_log.read_rows`.
          scalar: the training scalar.
          tokens: what it is divided by.
        """
        found = {row["step"]: row[scalar] for row in rows if row["split"] == "train" and scalar in row}
        steps = sorted(found)
        return cls(steps, [math.nan if found[step] is None else found[step] / tokens for step in steps])

    def smoothed(self) -> LossCurve:
        """Each loss as the mean of the windows that end in the last `SMOOTHED` of the run's steps before it."""
        lengths, means, begin = self.lengths(), [], 0
        span = SMOOTHED * sum(lengths)
        for end, step in enumerate(self.steps):
            while begin < end and self.steps[begin] <= step - span:
                begin += 1
            steps = lengths[begin : end + 1]
            means.append(sum(n * loss for n, loss in zip(steps, self.losses[begin:])) / sum(steps))
        return LossCurve(self.steps, means)

    def lengths(self) -> list[int]:
        """The steps of each window."""
        return [step - before for before, step in zip((0, *self.steps), self.steps)]


@dataclasses.dataclass(frozen=True)
class Plateau:
    """How long a run's training loss is above a line; see `plateau_of`.

    Attributes:
      line: in nats per token.
      first_below: the first step at which the smoothed loss is below it; None for never.
      steps: number of steps above it.
      share: of the run's steps, in [0, 1]; of its examples too, as all batches are of one size.
    """

    line: float
    first_below: int | None
    steps: int
    share: float


def plateau_of(curve: LossCurve, line: float) -> Plateau:
    """The steps of a run above a line, such as the unigram entropy: where it has learned no more than frequencies.

    Args:
      curve: of the run; smoothed here.
      line: in nats per token.
    """
    smoothed = curve.smoothed()
    lengths = curve.lengths()
    # A loss that is not finite is above every line.
    above = sum(length for length, loss in zip(lengths, smoothed.losses) if not loss < line)
    first = next((step for step, loss in zip(smoothed.steps, smoothed.losses) if loss < line), None)
    return Plateau(line, first, above, above / max(1, sum(lengths)))
