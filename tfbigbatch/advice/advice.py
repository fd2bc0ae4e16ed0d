"""The advice: what was measured, the batch worth using, and the recipe to begin with."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.advice import noise, sources
from tfbigbatch.advice.noise import NoisePoint, Range
from tfbigbatch.advice.suggestion import Optimizer, Suggestion, entry, examples, suggest
from tfbigbatch.reports.table import Table
from tfbigbatch.scaling.date_rules import rate_growth
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments


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
      step_seconds: batch size to the mean seconds of a step in each turn of measuring.
      stopped: why no larger batch was timed.
      seconds: that the measurements took.
      experiment: the flags that name it, '--config=digits/lstm_small_batch'; None for a model from `fit`.
    """

    title: str
    tuned: Recipe
    optimizer: Optimizer
    dataset_size: int
    points: Sequence[NoisePoint]
    step_seconds: Mapping[int, Sequence[float]]
    stopped: str
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
        largest = max(self.tuned.batch_size, min(self.dataset_size, 4 * max(self.step_seconds)))
        doublings = (largest // self.tuned.batch_size).bit_length()
        return [self.row(self.tuned.batch_size * 2**power) for power in range(doublings)]

    def row(self, batch_size: int) -> Row:
        """The row of one batch size; it need not be in `rows`."""
        tuned, critical = self.tuned.batch_size, self.critical_batch_size
        base, _ = planned(self.step_seconds, tuned)
        seconds, accumulation = planned(self.step_seconds, batch_size)
        # S(B) = S_min (1 + N / B), equation 2.11 of McCandlish et al. 2018 (arXiv:1812.06162).
        scales = (critical.value, critical.low, critical.high)
        factors = [1.0 / rate_growth(each, tuned_batch=tuned, batch=batch_size) for each in scales]
        times = [each * seconds / base for each in factors]
        epochs = self.tuned.epochs
        return Row(
            batch_size=batch_size,
            accumulation_steps=accumulation,
            steps=factors[0],
            examples=factors[0] * batch_size / tuned,
            step_seconds=seconds,
            time=Range(times[0], min(times), max(times)),
            run_steps=None if epochs is None else max(1, round(epochs * self.dataset_size / batch_size)),
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
        """The `tfbigbatch train` command with `suggestion`; None for a model from `fit`.

        The optimizer is the tuned one: another is advised in few steps alone, and such a batch is not worth using.
        """
        if self.experiment is None:
            return None
        best, accumulation = self.suggestion, self.row(self.batch_size).accumulation_steps
        fields = {"batch_size": f"{best.batch_size}", "schedule.rule": best.rule}
        if best.tuned_learning_rate != self.tuned.learning_rate:
            fields["schedule.learning_rate"] = f"{best.tuned_learning_rate:.6g}"
        if best.tuned_warmup_epochs != self.tuned.warmup_epochs:
            fields |= {"schedule.warmup": "''", "schedule.warmup_epochs": f"{best.tuned_warmup_epochs:.6g}"}
        if accumulation > 1:
            fields["accumulation_steps"] = f"{accumulation}"
        # Of a field that is given twice the last value counts.
        given = " ".join(f"--config.{name}={value}" for name, value in fields.items())
        return f"tfbigbatch train {self.experiment} {given} --model_dir=runs/batch_{best.batch_size}"

    def __str__(self) -> str:
        row = self.row(self.batch_size)
        why = f"about x{row.time.value:.2f} of the tuned run's time, with x{row.examples:.2f} of its examples"
        if self.batch_size == self.tuned.batch_size:
            why = "no larger batch that pays is faster here"
        uncertain = (
            "the noise scale predicts the critical batch to a factor of a few at best, and less well before twice the "
            "warm-up. The learning rate is a start: try half and twice."
        )
        if self.total_steps is not None:
            seen = min(self.points[-1].last_step / self.total_steps, 1.0)
            uncertain = f"{seen:.1%} of the run was seen, the rest is extrapolated; {uncertain}"
        lines = [
            f"{self.title}: tuned at",
            *(f"  {line}" for line in self.tuned.lines(self.dataset_size)),
            "",
            *(
                f"noise scale in steps {point.first_step:,} to {point.last_step:,}: {_shown(point.scale)} examples"
                for point in self.points
            ),
            f"critical batch of the run: {_shown(self.critical_batch_size)}, if the noise scale grows as "
            f"steps^{noise.growth(self.points):.2g}",
            f"steps were timed up to batch {max(self.step_seconds):,}; {self.stopped}",
            "",
            "to the loss of the tuned run, relative to it, on this device:",
            *self._table().markdown(),
            "",
            entry("batch", f"{self.batch_size:,} is worth using: {why}."),
            entry("", f"up to {self.largest_batch_size:,} pays where more devices make a step cheaper."),
            str(self.suggestion),
            entry("uncertain", uncertain),
        ]
        return "\n".join([*lines, *([f"\nto begin with:\n  {self.command}"] if self.command else [])])

    def _table(self) -> Table:
        rows = []
        for row in self.rows:
            notes = {
                "tuned": row.batch_size == self.tuned.batch_size,
                "worth using": row.batch_size == self.batch_size,
                f"{row.accumulation_steps} micro-batches": row.accumulation_steps > 1,
                "few steps": row.run_steps is not None and row.run_steps < sources.FEW_STEPS,
            }
            rows.append(
                [
                    f"{row.batch_size:,}",
                    f"{1000 * row.step_seconds:,.1f}",
                    f"x{row.steps:.3f}",
                    f"x{row.examples:.2f}",
                    f"x{row.time.value:.2f}",
                    f"{row.time.low:.2f} to {row.time.high:.2f}",
                    "" if row.run_steps is None else f"{row.run_steps:,} steps",
                    ", ".join(note for note, holds in notes.items() if holds),
                ]
            )
        headings = ("batch", "ms a step", "steps", "examples", "time", "range", "same epochs", "note")
        return Table(headings, rows, frozenset({"note"}))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON; infinity as the string 'inf'."""
        names = (
            *("title", "tuned", "optimizer", "dataset_size", "total_steps", "points", "noise_now"),
            *("critical_batch_size", "rows", "batch_size", "largest_batch_size", "suggestion", "command", "seconds"),
        )
        found: dict[str, Any] = _plain({name: getattr(self, name) for name in names})
        return found | {"step_seconds": {str(size): list(turns) for size, turns in self.step_seconds.items()}}


def planned(step_seconds: Mapping[int, Sequence[float]], batch_size: int) -> tuple[float, int]:
    """(seconds, accumulation steps) of a step at a batch size: the fastest micro-batch of those measured."""
    fitting = [size for size in step_seconds if size <= batch_size] or [min(step_seconds)]
    counts = [(-(-batch_size // size), statistics.median(step_seconds[size])) for size in fitting]
    return min((count * seconds, count) for count, seconds in counts)


def _shown(value: Range) -> str:
    return f"{examples(value.value)} ({examples(value.low)} to {examples(value.high)})"


def _plain(value: Any) -> Any:
    """A value of dataclasses as plain ones; JSON has no infinity."""
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
