"""The recipe to begin with at a batch size: rule, learning rate, warm-up and optimizer, each with its reason."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.advice import sources
from tfbigbatch.advice.noise import Range
from tfbigbatch.scaling.date_rules import noise_gain
from tfbigbatch.scaling.recipe import Recipe

_ADAM = ("adam", "nadam", "adamax", "rmsprop", "adagrad", "adafactor", "lion", "ftrl")
_LAYERWISE = ("lars", "lamb", "adasum", "muon")
_RECURRENT = ("LSTM", "GRU", "RNN")
_ATTENTION = ("Attention", "Bahdanau")


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """The properties of the tuned recipe's optimizer that the advice depends on.

    Attributes:
      name: as 'momentum' or 'AdamW'.
      clips: True if gradients are clipped.
      convolutional: True for a model with convolutions.
      recurrent: True for a model with an LSTM, a GRU or another recurrent layer, and no attention.
    """

    name: str
    clips: bool = False
    convolutional: bool = False
    recurrent: bool = False

    @classmethod
    def of(cls, name: str, *, clips: bool, layers: Iterable[Any]) -> Optimizer:
        """The optimizer of a model.

        Args:
          name: as 'momentum' or 'AdamW'.
          clips: True if gradients are clipped.
          layers: of the model, nested ones too.
        """
        kinds = " ".join(type(layer).__name__ for layer in layers)
        has_attention = any(word in kinds for word in _ATTENTION)
        recurrent = any(word in kinds for word in _RECURRENT) and not has_attention
        return cls(name, clips, "Conv" in kinds, recurrent)

    @property
    def is_layerwise(self) -> bool:
        """True if it adapts the step of each layer to its weights, or to its shape."""
        return any(word in self.name.lower() for word in _LAYERWISE)

    @property
    def is_adaptive(self) -> bool:
        """True if it divides by a moving average of the gradients' size."""
        return any(word in self.name.lower() for word in _ADAM) or "lamb" in self.name.lower()

    @property
    def is_bounded(self) -> bool:
        """True if a large gradient does not make a large step."""
        return self.clips or self.is_adaptive or self.is_layerwise


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
    steps = (
        None if tuned.epochs is None else dataclasses.replace(tuned, batch_size=batch_size).total_steps(dataset_size)
    )
    warnings = _warnings(tuned, batch_size, steps, critical)
    far = factor >= sources.LAYERWISE_FROM
    why_optimizer = _why_the_tuned_one(optimizer, far)
    if far and steps is not None and steps < sources.FEW_STEPS:
        other, kept = _best_in_few_steps(optimizer)
        if other not in optimizer.name.lower():
            return _of_another(other, kept, tuned, optimizer.name, batch_size, steps, warnings)
        why_optimizer = f"the tuned one, which {kept}"
    rule, why_rule = _rule(factor, optimizer)
    gain, why_rate = _gain(tuned, optimizer, batch_size, rule, at_peak)
    warmup, why_warmup = _warmup(tuned, factor, rule)
    begun = dataclasses.replace(tuned, learning_rate=tuned.learning_rate * gain, warmup_epochs=warmup)
    scaled = begun.at(batch_size, rule)
    plain = tuned.learning_rate * noise_gain(
        at_peak, tuned, batch_size=batch_size, peak=tuned.learning_rate, highest=math.inf
    )
    spread = sources.RATE_FACTOR if factor > 1.0 else 1.0
    return Suggestion(
        batch_size=batch_size,
        rule=rule,
        learning_rate=scaled.learning_rate,
        learning_rate_low=min(scaled.learning_rate / spread, max(plain, tuned.learning_rate)),
        learning_rate_high=scaled.learning_rate * spread,
        tuned_learning_rate=begun.learning_rate,
        warmup_epochs=scaled.warmup_epochs,
        tuned_warmup_epochs=begun.warmup_epochs,
        optimizer=optimizer.name,
        steps=steps,
        reasons=_reasons(why_rule, why_rate, why_warmup, why_optimizer),
        warnings=warnings,
    )


def _of_another(
    name: str, kept: str, tuned: Recipe, tuned_name: str, batch_size: int, steps: int, warnings: Sequence[str]
) -> Suggestion:
    """The recipe of another optimizer than the tuned one, in few steps: nothing of it is scaled from the tuned recipe.

    Args:
      name: of the optimizer, 'lamb' or 'muon'.
      kept: what it did, in words.
      tuned: the tuned recipe, with a length.
      tuned_name: of its optimizer.
      batch_size, steps, warnings: of the suggestion.
    """
    low, high = {"lamb": sources.LAMB_RATES, "muon": sources.MUON_RATES}[name]
    rate = float(f"{math.sqrt(low * high):.2g}")
    assert tuned.epochs is not None  # As the run has steps.
    warmup = sources.FEW_STEPS_WARMUP * tuned.epochs
    reasons = _reasons(
        f"{name} does not begin with {tuned_name}'s recipe",
        f"the middle of where {name}'s best lay in runs of few steps; {tuned_name}'s says nothing about it: tune it",
        f"{sources.FEW_STEPS_WARMUP:.0%} of the run, as in the benchmark of few steps",
        f"in {steps:,} steps it {kept}",
    )
    return Suggestion(batch_size, "none", rate, low, high, rate, warmup, warmup, name, steps, reasons, warnings)


def _reasons(rule: str, rate: str, warmup: str, optimizer: str) -> dict[str, str]:
    return {"rule": rule, "learning rate": rate, "warm-up": warmup, "optimizer": optimizer}


def _rule(factor: float, optimizer: Optimizer) -> tuple[str, str]:
    if factor <= 1.0:
        return "none", "the batch is the tuned one"
    if "muon" in optimizer.name.lower():
        return "sqrt", "the square root of the batch; LEGW's longer warm-up cost Muon a point"
    return "legw", "the square root of the batch, with a warm-up of as many steps (You et al. 2019, arXiv:1901.08256)"


def _gain(tuned: Recipe, optimizer: Optimizer, batch_size: int, rule: str, at_peak: float) -> tuple[float, str]:
    """(factor of the tuned learning rate, why)."""
    if batch_size <= tuned.batch_size:
        return 1.0, "the tuned one"
    ruled = tuned.at(batch_size, rule).learning_rate
    gain = noise_gain(at_peak, tuned, batch_size=batch_size, peak=ruled)
    noise = f"the noise scale of {at_peak:,.0f} at the peak"
    if gain >= 1.0:
        return 1.0, f"the rule's; {noise} allows it (McCandlish et al. 2018)"
    limit = f"{noise} would allow {gain * ruled:.3g} (McCandlish et al. 2018)"
    if optimizer.is_bounded:
        return 1.0, f"the rule's: {limit}, but clipping or adaptation bounds a step. Lower it if the loss rises"
    return gain, f"{limit}, and nothing bounds a step of {optimizer.name}. With global_clipnorm, try {ruled:.3g}"


def _warmup(tuned: Recipe, factor: float, rule: str) -> tuple[float, str]:
    """(warm-up epochs at the tuned batch, why)."""
    if rule != "legw":
        return tuned.warmup_epochs, "the tuned one"
    if tuned.warmup_epochs:
        if tuned.epochs and tuned.warmup_epochs * factor > sources.LONG_WARMUP * tuned.epochs:
            return sources.LONG_WARMUP * tuned.epochs / factor, "half of the run; the rule's would be longer"
        return tuned.warmup_epochs, "the rule's: as many steps as at the tuned batch"
    if tuned.epochs is None:
        return 0.0, "the recipe has none and no length: set warmup_epochs"
    return sources.WARMUP_FRACTION * tuned.epochs / factor, (
        "the recipe has none, and a higher learning rate needs one: the fraction of Goyal et al. 2017"
    )


def _why_the_tuned_one(optimizer: Optimizer, far: bool) -> str:
    """Why to begin with the tuned optimizer, and what to try beside it; `far`: at LAYERWISE_FROM times its batch."""
    if not far or optimizer.is_layerwise:
        return "the tuned one"
    if optimizer.is_adaptive:
        return "the tuned one: LAMB was not better in the studies; try it where the tuned one loses"
    name = "lars" if optimizer.convolutional else "lamb"
    return f"the tuned one. So far above its batch, tune a learning rate for {name} at the small batch, and compare"


def _best_in_few_steps(optimizer: Optimizer) -> tuple[str, str]:
    """(name of the optimizer that was best in few steps on such networks, what it did in words)."""
    if optimizer.recurrent:
        return "lamb", "kept the small batch's accuracy on the digits' LSTM, and Muon did not; try Muon next"
    return "muon", "kept most of the small batch's accuracy where the others lost it"


def _warnings(tuned: Recipe, batch_size: int, steps: int | None, critical: Range) -> list[str]:
    found = []
    if batch_size > tuned.batch_size and steps is not None and steps < sources.FEW_STEPS:
        found.append(
            f"few steps: {steps:,} in {tuned.epochs:.4g} epochs. Below about {sources.FEW_STEPS} most recipes lost "
            "accuracy in this project's studies, by any scaling rule: train for more epochs, or let the batch grow"
        )
    if batch_size > critical.value > 0:
        tuned_too = "the tuned batch is " if batch_size <= tuned.batch_size else ""
        found.append(f"{tuned_too}above the critical batch of about {examples(critical.value)}")
    return found


def examples(value: float) -> str:
    """A number of examples with three digits."""
    if math.isinf(value):
        return "no upper end"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
