"""The advice: what was measured, the batch worth using, and the recipe to begin with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.advice import noise, sources, text
from tfbigbatch.advice.measuring import StepTimes
from tfbigbatch.advice.noise import NoisePoint, Range
from tfbigbatch.advice.suggestion import Optimizer, Suggestion, suggest
from tfbigbatch.reports import figure_style
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments
from tfbigbatch.utils.home import expanded


@dataclasses.dataclass(frozen=True)
class Row:
    """The steps, examples and time to the loss of the tuned run that are expected of one batch size, relative to it.

    Attributes:
      batch_size: examples in one step.
      accumulation_steps: micro-batches in it.
      steps: factor of the tuned run's steps.
      examples: factor of the tuned run's examples.
      step_seconds: of one step.
      time: factor of the tuned run's time, by the critical batch and the ends of its range.
      run_steps: steps in the same epochs; None for a recipe without a length.
    """

    batch_size: int
    accumulation_steps: int
    steps: float
    examples: float
    step_seconds: float
    time: Range
    run_steps: int | None


@dataclasses.dataclass(frozen=True)
class Advice:
    """The findings of a short run about the batch size of a recipe. `print(advice)` explains them.

    Attributes:
      title: what was measured.
      tuned: the recipe at its own batch size.
      optimizer: of the recipe.
      dataset_size: examples in an epoch.
      points: the gradient noise scale early in the short run, if it was measured, and at its end.
      times: seconds of steps.
      seconds: that the measurements took.
      experiment: the flags that name it, '--config=digits/lstm_small_batch'; None for a model from `fit`.
    """

    title: str
    tuned: Recipe
    optimizer: Optimizer
    dataset_size: int
    points: Sequence[NoisePoint]
    times: StepTimes
    seconds: float
    experiment: str | None = None

    @property
    def total_steps(self) -> int | None:
        """Steps of the tuned run; None where the recipe has no length."""
        return None if self.tuned.epochs is None else self.tuned.total_steps(self.dataset_size)

    @property
    def noise_now(self) -> Range:
        """The gradient noise scale at the end of the short run, in examples, with its interval."""
        return self.points[-1].scale

    @property
    def critical_batch_size(self) -> Range:
        """The critical batch of the whole run: twice the least steps and twice the least examples."""
        if self.total_steps is None:
            return self.noise_now
        return noise.over_the_run(self.points, self.total_steps, self.tuned.batch_size)

    @property
    def rows(self) -> list[Row]:
        """Batch sizes from the tuned one on, with their expected steps, examples and time to the same loss."""
        largest = max(self.tuned.batch_size, min(self.dataset_size, 4 * max(self.times.turns)))
        doublings = (largest // self.tuned.batch_size).bit_length()
        return [self.row(self.tuned.batch_size * 2**power) for power in range(doublings)]

    def row(self, batch_size: int) -> Row:
        """The row of one batch size; it need not be in `rows`."""
        tuned, critical = self.tuned.batch_size, self.critical_batch_size
        base, _ = self.times.planned(tuned)
        seconds, accumulation = self.times.planned(batch_size)
        factors = [steps_factor(each, batch_size, tuned) for each in (critical.value, critical.low, critical.high)]
        times = [each * seconds / base for each in factors]
        examples = None if self.tuned.epochs is None else self.tuned.epochs * self.dataset_size
        return Row(
            batch_size=batch_size,
            accumulation_steps=accumulation,
            steps=factors[0],
            examples=factors[0] * batch_size / tuned,
            step_seconds=seconds,
            time=Range(times[0], min(times), max(times)),
            run_steps=None if examples is None else max(1, round(examples / batch_size)),
        )

    @property
    def largest_batch_size(self) -> int:
        """The largest batch that pays on more devices: below the critical batch, and with enough steps."""
        paying = [row for row in self.rows if row.run_steps is None or row.run_steps >= sources.FEW_STEPS]
        sizes = [row.batch_size for row in paying if row.batch_size <= self.critical_batch_size.value]
        return max([self.tuned.batch_size, *sizes])

    @property
    def batch_size(self) -> int:
        """The batch worth using on this device: the smallest one that is about as fast as any that pays."""
        paying = [row for row in self.rows if row.batch_size <= self.largest_batch_size]
        fastest = min(row.time.value for row in paying)
        return next(row.batch_size for row in paying if row.time.value <= (1.0 + sources.ENOUGH) * fastest)

    @property
    def suggestion(self) -> Suggestion:
        """The recipe to begin with at `batch_size`."""
        return self.at(self.batch_size)

    def at(self, batch_size: int) -> Suggestion:
        """The recipe to begin with at any larger batch size.

        Raises:
          ValueError: the batch is not a whole number, or not from the tuned batch to the size of the dataset.
        """
        least = self.tuned.batch_size
        batch_size = arguments.integer("batch_size", batch_size, least=least, most=self.dataset_size, owner="Advice.at")
        return suggest(
            self.tuned,
            self.optimizer,
            batch_size,
            dataset_size=self.dataset_size,
            critical=self.critical_batch_size,
            at_peak=self.noise_now.value,
        )

    @property
    def command(self) -> str | None:
        """The command that trains with `suggestion`; None for a model from `fit`."""
        return None if self.experiment is None else text.command(self)

    def __str__(self) -> str:
        return text.explained(self)

    def plot(self, path: str) -> None:
        """Draws the time against batch size, with the range of the critical batch, as a PNG file.

        Raises:
          ValueError: matplotlib is not installed, or the file cannot be written.
        """
        rows, critical = self.rows, self.critical_batch_size
        batches, times = [row.batch_size for row in rows], [row.time for row in rows]
        title = f"{self.title}: time to the loss of the run at batch {batches[0]:,}, relative to it"
        with figure_style.figure(expanded(path), title, len(rows)) as (_, [axes]):
            axes.plot(batches, [each.value for each in times], "o-", label="time")
            lows, highs = [each.low for each in times], [each.high for each in times]
            axes.fill_between(batches, lows, highs, alpha=0.2, linewidth=0, label="over the range of the noise")
            figure_style.batch_axis(axes, batches)
            # The critical batch as a band; its ends are cut to the axis.
            left, right = batches[0] / 1.3, batches[-1] * 1.3
            low, high = (min(max(each, left), right) for each in (critical.low, critical.high))
            axes.axvspan(low, high, color="#009E73", alpha=0.10, linewidth=0, label="critical batch of the run")
            axes.axvline(self.batch_size, color="black", linewidth=1.2, linestyle="--", label="worth using")
            axes.set_xlim(left, right)
            axes.set_yscale("log")
            figure_style.legend_beside(axes)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON; infinity as the string 'inf'."""
        names = (
            *("title", "tuned", "optimizer", "dataset_size", "total_steps", "noise_now"),
            *("critical_batch_size", "rows", "batch_size", "largest_batch_size", "suggestion", "command", "seconds"),
        )
        found = {name: getattr(self, name) for name in names} | {"noise_scale": self.points}
        found["step_seconds"] = {str(size): turns for size, turns in self.times.turns.items()}
        plain: dict[str, Any] = _plain(found)
        return plain


def steps_factor(critical: float, batch_size: float, tuned_batch: float) -> float:
    """Steps to the same loss at `batch_size` relative to those at `tuned_batch`.

    McCandlish et al. 2018 (arXiv:1812.06162), equation 2.11, with S(B) = S_min (1 + N / B):

        (1 + N / batch_size) / (1 + N / tuned_batch)

    Args:
      critical: N, the critical batch in examples; may be infinite.
    """
    if math.isinf(critical):
        return tuned_batch / batch_size
    return (1.0 + critical / batch_size) / (1.0 + critical / tuned_batch)


def _plain(value: Any) -> Any:
    """A value of dataclasses as plain ones; JSON has no infinity."""
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
