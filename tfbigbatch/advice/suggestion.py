"""The recipe to begin with at a batch size: rule, learning rate, warm-up and optimizer, each with its reason."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.advice import sources
from tfbigbatch.advice.noise import Range
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.scaling.date_rules import noise_gain
from tfbigbatch.scaling.recipe import Recipe

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

    def is_one_of(self, names: Iterable[str]) -> bool:
        """True if its name has one of these in it."""
        return any(name in self.name.lower() for name in names)


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
      rule: of `scaling.RULES`; 'none' with another optimizer than the tuned one, whose learning rate is no scaled one.
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


def suggest(
    tuned: Recipe, optimizer: Optimizer, batch_size: int, *, dataset_size: int, critical: Range, at_peak: float
) -> Suggestion:
    """The recipe to begin with at `batch_size`.

    Args:
      tuned: the recipe at its own batch size.
      optimizer: of the tuned recipe.
      batch_size: examples in one step, the tuned batch or more.
      dataset_size: examples in an epoch.
      critical: the critical batch of the run, in examples.
      at_peak: the noise scale when the learning rate reaches its peak, in examples.
    """
    factor = batch_size / tuned.batch_size
    steps, few, warnings = None, False, []
    if tuned.epochs is not None:
        steps = dataclasses.replace(tuned, batch_size=batch_size).total_steps(dataset_size)
        few = factor > 1.0 and steps < sources.FEW_STEPS
    if few:
        warnings.append(
            f"few steps: {steps:,} in {tuned.epochs:.4g} epochs. Below about {sources.FEW_STEPS} most recipes lost "
            "accuracy in this project's studies, by any scaling rule: train for more epochs, or let the batch grow"
        )
    if batch_size > critical.value > 0:
        warnings.append(f"the batch is above the critical batch of about {examples(critical.value)}")
    reasons = {"optimizer": "the tuned one"}
    if few and factor >= sources.LAYERWISE_FROM:
        name = "lamb" if optimizer.recurrent else "muon"
        (low, high), kept = _IN_FEW_STEPS[name]
        if not optimizer.is_one_of([name]):
            # Nothing of it is scaled from the tuned recipe.
            reasons = {
                "rule": f"{name} does not begin with {optimizer.name}'s recipe",
                "learning rate": f"the middle of where {name}'s best lay in runs of few steps: tune it",
                "warm-up": f"{sources.FEW_STEPS_WARMUP:.0%} of the run, as in the benchmark of few steps",
                "optimizer": f"in {steps:,} steps it {kept}",
            }
            rate, warmup = float(f"{math.sqrt(low * high):.2g}"), sources.FEW_STEPS_WARMUP * (tuned.epochs or 0.0)
            return Suggestion(batch_size, "none", rate, low, high, rate, warmup, warmup, name, steps, reasons, warnings)
        reasons["optimizer"] += f", which {kept}"
    rule, reasons["rule"] = "legw", "the square root of the batch, with a warm-up of as many steps (arXiv:1901.08256)"
    if factor <= 1.0:
        rule, reasons["rule"] = "none", "the batch is the tuned one"
    elif optimizer.is_one_of(["muon"]):
        rule, reasons["rule"] = "sqrt", "the square root of the batch; LEGW's longer warm-up cost Muon a point"
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
    if optimizer.clips or optimizer.is_one_of(_BOUNDED):
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
