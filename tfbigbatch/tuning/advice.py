"""The advice: what was measured, the batch worth using, and the recipe to begin with, with its reasons."""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.reports.table import Table
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.tuning import noise, sources
from tfbigbatch.tuning.noise import NoisePoint, Range, noise_gain, rate_growth
from tfbigbatch.utils import arguments

# Optimizers that bound the step of a large gradient, and those of them that were best in runs of few steps: the range
# of their learning rates, and what they did.
_BOUNDED = ("adam", "nadam", "rmsprop", "adagrad", "adafactor", "lion", "ftrl", "lars", "lamb", "adasum", "muon")
_IN_FEW_STEPS = {
    "lamb": (
        sources.LAMB_RATES,
        "kept the small batch's accuracy on the digits' LSTM, and Muon did not; try Muon next",
    ),
    "muon": (sources.MUON_RATES, "kept most of the small batch's accuracy where the others lost it"),
}


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """The properties of the tuned recipe's optimizer that the advice depends on.

    Attributes:
      name: as 'momentum' or 'AdamW'.
      clips: True if gradients are clipped.
      recurrent: True for a model with an LSTM, a GRU or another recurrent layer, and no attention.
    """

    name: str
    clips: bool = False
    recurrent: bool = False


def optimizer_of(model: Any) -> Optimizer:
    """The properties of a compiled model that the advice depends on."""
    optimizer = innermost(model.optimizer)
    name = type(optimizer).__name__.lower()
    kinds = " ".join(type(layer).__name__ for layer in model._flatten_layers())
    return Optimizer(
        "momentum" if name == "sgd" else name,
        clips=any(getattr(optimizer, each, None) for each in ("global_clipnorm", "clipnorm", "clipvalue")),
        recurrent=any(word in kinds for word in ("LSTM", "GRU", "RNN"))
        and not any(word in kinds for word in ("Attention", "Bahdanau")),
    )


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """A recipe to begin with at one batch size; its learning rates and its warm-up are those of its `optimizer`.

    Attributes:
      batch_size: examples in one step.
      rule: the scaling rule, a name of `scaling.RULES`; 'none' if the optimizer is not the tuned one.
      learning_rate: the peak.
      learning_rate_low, learning_rate_high: where the best one is likely to be.
      tuned_learning_rate: what the rule starts from, the tuned recipe's or a lower one: `schedule.learning_rate`.
      warmup_epochs: at this batch size.
      tuned_warmup_epochs: what the rule starts from: `schedule.warmup_epochs`.
      optimizer: name of the one to begin with.
      steps: of the run in the same epochs; None without a length.
      reasons: of the rule, the learning rate, the warm-up and the optimizer, by these names.
      warnings: lines on what is likely to fail.
    """

    batch_size: int
    rule: str
    learning_rate: float
    learning_rate_low: float
    learning_rate_high: float
    tuned_learning_rate: float
    warmup_epochs: float
    tuned_warmup_epochs: float
    optimizer: str
    steps: int | None
    reasons: Mapping[str, str]
    warnings: Sequence[str]

    def __str__(self) -> str:
        low, high = self.learning_rate_low, self.learning_rate_high
        values = {
            "rule": self.rule,
            "learning rate": f"{self.learning_rate:.4g}" + (f" ({low:.3g} to {high:.3g})" if high > low else ""),
            "warm-up": f"{self.warmup_epochs:.3g} epochs",
            "optimizer": self.optimizer,
        }
        lines = [entry(name, f"{value}: {self.reasons[name]}.") for name, value in values.items()]
        return "\n".join([*lines, *(entry("warning", f"{warning}.") for warning in self.warnings)])


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
        tuned, optimizer, at_peak = self.tuned, self.optimizer, self.noise_now.value
        least, most = tuned.batch_size, self.dataset_size
        batch_size = arguments.integer("batch_size", batch_size, least=least, most=most, owner="Advice.at")
        factor = batch_size / tuned.batch_size
        steps, few, warnings = None, False, []
        if tuned.epochs is not None:
            steps = dataclasses.replace(tuned, batch_size=batch_size).total_steps(self.dataset_size)
            few = factor > 1.0 and steps < sources.FEW_STEPS
        if few:
            warnings.append(
                f"few steps: {steps:,} in {tuned.epochs:.4g} epochs. Below about {sources.FEW_STEPS} most recipes lost "
                "accuracy in this project's tables, by any scaling rule: train for more epochs, or let the batch grow"
            )
        if batch_size > (critical := self.critical_batch_size.value) > 0:
            warnings.append(f"the batch is above the critical batch of about {examples(critical)}")
        reasons = {"optimizer": "the tuned one"}
        if few and factor >= sources.LAYERWISE_FROM:
            name = "lamb" if optimizer.recurrent else "muon"
            (low, high), kept = _IN_FEW_STEPS[name]
            if name not in optimizer.name.lower():
                # Nothing of it is scaled from the tuned recipe.
                reasons = {
                    "rule": f"{name} does not begin with {optimizer.name}'s recipe",
                    "learning rate": f"the middle of where {name}'s best lay in runs of few steps: tune it",
                    "warm-up": f"{sources.FEW_STEPS_WARMUP:.0%} of the run, as in the benchmark of few steps",
                    "optimizer": f"in {steps:,} steps it {kept}",
                }
                rate, warmup = float(f"{math.sqrt(low * high):.2g}"), sources.FEW_STEPS_WARMUP * (tuned.epochs or 0.0)
                return Suggestion(
                    batch_size, "none", rate, low, high, rate, warmup, warmup, name, steps, reasons, warnings
                )
            reasons["optimizer"] += f", which {kept}"
        if factor <= 1.0:
            rule, reasons["rule"] = "none", "the batch is the tuned one"
        else:
            rule = sources.rule_of(optimizer.name)
            reasons["rule"] = {
                "sqrt": "the square root of the batch; LEGW's longer warm-up cost Muon a point",
                "legw": "the square root of the batch, with a warm-up of as many steps (arXiv:1901.08256)",
            }[rule]
        gain, reasons["learning rate"] = _gain(tuned, optimizer, batch_size, rule, at_peak)
        warmup, reasons["warm-up"] = _warmup(tuned, factor, rule)
        begun = dataclasses.replace(tuned, learning_rate=tuned.learning_rate * gain, warmup_epochs=warmup)
        scaled = begun.at(batch_size, rule)
        plain = noise_gain(at_peak, tuned, batch_size=batch_size, peak=tuned.learning_rate, highest=math.inf)
        spread = sources.RATE_FACTOR if factor > 1.0 else 1.0
        return Suggestion(
            batch_size=batch_size,
            rule=rule,
            learning_rate=scaled.learning_rate,
            learning_rate_low=min(scaled.learning_rate / spread, tuned.learning_rate * max(plain, 1.0)),
            learning_rate_high=scaled.learning_rate * spread,
            tuned_learning_rate=begun.learning_rate,
            warmup_epochs=scaled.warmup_epochs,
            tuned_warmup_epochs=begun.warmup_epochs,
            optimizer=optimizer.name,
            steps=steps,
            reasons=reasons,
            warnings=warnings,
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


def _gain(tuned: Recipe, optimizer: Optimizer, batch_size: int, rule: str, at_peak: float) -> tuple[float, str]:
    """(factor of the tuned learning rate, why)."""
    if batch_size <= tuned.batch_size:
        return 1.0, "the tuned one"
    ruled = tuned.at(batch_size, rule).learning_rate
    gain = noise_gain(at_peak, tuned, batch_size=batch_size, peak=ruled)
    allowed = "it" if gain >= 1.0 else f"{gain * ruled:.3g}"
    noise = f"a noise scale of {at_peak:,.0f} allows {allowed} (arXiv:1812.06162)"
    if gain >= 1.0:
        return 1.0, f"the rule's; {noise}"
    if optimizer.clips or any(each in optimizer.name.lower() for each in _BOUNDED):
        return 1.0, f"the rule's: {noise}, but clipping or adaptation bounds a step. Lower it if the loss rises"
    return gain, f"{noise}, and nothing bounds a step of {optimizer.name}. With global_clipnorm, try {ruled:.3g}"


def _warmup(tuned: Recipe, factor: float, rule: str) -> tuple[float, str]:
    """(warm-up epochs at the tuned batch, why)."""
    if rule != "legw":
        return tuned.warmup_epochs, "the tuned one"
    if tuned.epochs and tuned.warmup_epochs * factor > sources.LONG_WARMUP * tuned.epochs:
        return sources.LONG_WARMUP * tuned.epochs / factor, "half of the run; the rule's would be longer"
    if tuned.warmup_epochs:
        return tuned.warmup_epochs, "the rule's: as many steps as at the tuned batch"
    if tuned.epochs is None:
        return 0.0, "the recipe has none and no length: set warmup_epochs"
    return sources.WARMUP_FRACTION * tuned.epochs / factor, (
        "the recipe has none, and a higher learning rate needs one: the fraction of Goyal et al. 2017"
    )


def examples(value: float) -> str:
    """A number of examples with three digits."""
    if math.isinf(value):
        return "no upper end"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def entry(name: str, words: str) -> str:
    """A line of the advice, wrapped beside its name."""
    return textwrap.fill(words, 108, initial_indent=name.ljust(14), subsequent_indent=" " * 14)
