"""The advice: what was measured, the batch worth using, and the recipe to begin with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.advice import noise, ramp, sources, text, trade_off
from tfbigbatch.advice.noise import Moments, NoisePoint, Range
from tfbigbatch.advice.ramp import Branched, RampAdvice
from tfbigbatch.advice.step_times import StepTimes
from tfbigbatch.advice.suggestion import Optimizer, Suggestion, suggest
from tfbigbatch.errors import InputError
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments
from tfbigbatch.utils.home import expanded


@dataclasses.dataclass(frozen=True)
class Advice:
    """What a short run says about the batch size of a recipe. `print(advice)` explains it.

    Attributes:
      title: what was measured.
      tuned: the recipe at its own batch size.
      optimizer: of the recipe.
      dataset_size: examples in an epoch.
      replicas: devices that the times are planned for.
      points: the gradient noise scale over the short run.
      times: seconds of a replica's steps.
      moments: the single measurements of the gradient.
      seconds: that the measurements took.
      experiment: the flags that name it, '--config=digits/lstm_small_batch'; None for a model from `fit`.
      branched: critical batches that `tfbigbatch critical-batch` measured, in the order of the run; they are used in
        place of the noise scale.
    """

    title: str
    tuned: Recipe
    optimizer: Optimizer
    dataset_size: int
    replicas: int
    points: Sequence[NoisePoint]
    times: StepTimes
    moments: Sequence[Moments]
    seconds: float
    experiment: str | None = None
    branched: Sequence[Branched] = ()

    @property
    def total_steps(self) -> int | None:
        """Steps of the tuned run; None where the recipe has no length."""
        return None if self.tuned.epochs is None else self.tuned.total_steps(self.dataset_size)

    @property
    def noise_now(self) -> Range:
        """The gradient noise scale at the end of the short run, in examples, with its interval."""
        return noise.now(self.points)

    @property
    def noise_at_end(self) -> Range | None:
        """The range that the noise scale may reach by the end of the tuned run; None without a length."""
        return None if self.total_steps is None else noise.at_end(self.points, self.total_steps)

    @property
    def critical_batch_size(self) -> Range:
        """The critical batch of the whole run: twice the least steps and twice the least examples."""
        if self.branched:
            return ramp.over_the_run(self.branched)
        if self.total_steps is None:
            return self.noise_now
        return noise.over_the_run(self.points, self.total_steps, self.tuned.batch_size)

    @property
    def is_early(self) -> bool:
        """Whether the short run ended before twice the warm-up: the noise scale rises most after that."""
        return self.points[-1].last_step < 2 * self.tuned.warmup_steps(self.dataset_size)

    @property
    def rows(self) -> list[trade_off.Row]:
        """Batch sizes from the tuned one on, with their expected steps, examples and time to the same loss."""
        sizes, size = [], self.tuned.batch_size
        largest = min(self.dataset_size, max(self.times.turns) * self.replicas * 4)
        while size <= max(largest, self.tuned.batch_size):
            sizes.append(size)
            size *= 2
        return trade_off.rows(
            sizes,
            critical=self.critical_batch_size,
            times=self.times,
            tuned_batch=self.tuned.batch_size,
            replicas=self.replicas,
            examples=None if self.tuned.epochs is None else self.tuned.epochs * self.dataset_size,
        )

    @property
    def largest_batch_size(self) -> int:
        """The largest batch that pays, with enough replicas: below the critical batch, and with enough steps."""
        return max(
            [self.tuned.batch_size]
            + [row.batch_size for row in self.rows if row.batch_size <= self.critical_batch_size.value and _enough(row)]
        )

    @property
    def batch_size(self) -> int:
        """The batch worth using on `replicas` devices: the smallest one that is about as fast as any that pays."""
        paying = [row for row in self.rows if row.batch_size <= self.largest_batch_size]
        fastest = min(row.time for row in paying)
        return next(row.batch_size for row in paying if row.time <= (1.0 + sources.ENOUGH) * fastest)

    @property
    def suggestion(self) -> Suggestion:
        """The recipe to begin with at `batch_size`."""
        return self.at(self.batch_size)

    @property
    def ramp(self) -> RampAdvice | None:
        """The batch ramp to begin with; None where none is needed or possible."""
        return ramp.ramp_of(
            self.tuned,
            self.batch_size,
            dataset_size=self.dataset_size,
            at_start=self.points[0].noise_scale,
            branched=self.branched,
        )

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

    def row(self, batch_size: int) -> trade_off.Row:
        """The row of one batch size; it need not be in `rows`."""
        return trade_off.rows(
            [batch_size],
            critical=self.critical_batch_size,
            times=self.times,
            tuned_batch=self.tuned.batch_size,
            replicas=self.replicas,
            examples=None if self.tuned.epochs is None else self.tuned.epochs * self.dataset_size,
        )[0]

    @property
    def command(self) -> str | None:
        """The command that trains with `suggestion`; None for a model from `fit`."""
        return None if self.experiment is None else text.command(self)

    def __str__(self) -> str:
        return text.explained(self)

    def plot(self, path: str) -> None:
        """Draws steps and time against batch size, with the range of the critical batch, as a PNG file.

        Raises:
          ValueError: matplotlib is not installed, or the file cannot be written.
        """
        from tfbigbatch.advice import plot

        plot.draw(self, expanded(path))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON; infinity as the string 'inf'."""
        found: dict[str, Any] = {
            "title": self.title,
            "tuned": dataclasses.asdict(self.tuned),
            "optimizer": dataclasses.asdict(self.optimizer),
            "dataset_size": self.dataset_size,
            "replicas": self.replicas,
            "total_steps": self.total_steps,
            "noise_scale": [dataclasses.asdict(point) for point in self.points],
            "noise_now": dataclasses.asdict(self.noise_now),
            "noise_at_end": None if self.noise_at_end is None else dataclasses.asdict(self.noise_at_end),
            "is_early": self.is_early,
            "growth": noise.growth(self.points),
            "critical_batch_size": dataclasses.asdict(self.critical_batch_size),
            "step_seconds": {str(size): list(turns) for size, turns in self.times.turns.items()},
            "stopped": self.times.stopped,
            "rows": [dataclasses.asdict(row) for row in self.rows],
            "batch_size": self.batch_size,
            "largest_batch_size": self.largest_batch_size,
            "suggestion": dataclasses.asdict(self.suggestion),
            "branched": [dataclasses.asdict(each) for each in self.branched],
            "ramp": None if self.ramp is None else {"fields": self.ramp.fields, "steps": self.ramp.steps},
            "command": self.command,
            "seconds": round(self.seconds, 1),
        }
        plain: dict[str, Any] = _plain(found)
        return plain


def check_measured(times: StepTimes) -> None:
    """Raises ValueError where one batch size was measured alone."""
    if len(times.turns) < 2:
        raise InputError(
            f"not measurable: the speed at one batch size only, {next(iter(times.turns)):,}; {times.stopped}. Expected "
            "two or more: give more seconds, more examples, or a smaller tuned batch."
        )


def _enough(row: trade_off.Row) -> bool:
    return row.run_steps is None or row.run_steps >= sources.FEW_STEPS


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
