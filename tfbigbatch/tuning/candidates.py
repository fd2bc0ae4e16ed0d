"""The candidates of `tune`: recipes around the one carried from a smaller batch, in numbers without dimensions.

A number that depends on the batch or on the length of a run is not searched by itself: the learning rate is searched as
a factor of the square-root rule's, moments as half-lives, weight decay as learning rate x decay x steps, the warm-up as
a share of the run. Ranges of these hold for any batch.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from tfbigbatch.config import override, set_fields
from tfbigbatch.config.overrides import hold_tuned_batch
from tfbigbatch.config.recipe import optimizer_to_scale, tuned_recipe
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import registry
from tfbigbatch.scaling import moments
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.schedules.durations import parsed
from tfbigbatch.tuning import sources

SEARCHED = ("rate", "half_life", "decay", "warmup")
"""What is searched beside the optimizer: the attributes of `Point`."""
# Steps: a moment with a shorter half-life is hardly one.
_SHORTEST = 0.5
# Of another optimizer than the tuned one: how many times shorter than by default half-lives are at `half_life` 0.
_SHORTER = 8.0
TUNED = "tuned"


@dataclasses.dataclass(frozen=True)
class Point:
    """One candidate, in numbers without dimensions.

    Attributes:
      optimizer: registered name.
      rate: factor of the learning rate by the square-root rule; of an optimizer that has no tuned recipe, of the middle
        of its `sources.RATES`. Of `sources.HEAVY_BALL`, factor of learning rate / (1 - momentum).
      half_life: of the moments: 1, the same number of steps; 0, the same number of examples; between them it is
        interpolated in its logarithm.
      decay: factor of the tuned learning rate x weight decay x steps; of L2 in the gradient, which is a part of the
        loss, factor of its coefficient.
      warmup: share of the run.
    """

    optimizer: str
    rate: float = 1.0
    half_life: float = 1.0
    decay: float = 1.0
    warmup: float = 0.0

    def __str__(self) -> str:
        # Also of a recipe without weight decay.
        decay = "" if self.decay == 1.0 else f", decay x{self.decay:.3g}"
        return (
            f"{self.optimizer}, rate x{self.rate:.3g}, half-life {self.half_life:.2f}{decay}, warm-up {self.warmup:.1%}"
        )


class SearchSpace:
    """The candidates of an experiment at a batch size.

    Args:
      config: of the experiment, with the recipe that was tuned.
      dataset_size: examples in an epoch at the batch size.
      batch_size: that is wanted; at least the tuned one.
      optimizers: registered names; 'tuned' is the experiment's.
      search: names of `SEARCHED`; what is left out stays as it was carried.

    Attributes:
      tuned: the recipe at its own batch size.
      optimizers: registered names, the tuned one first where it is among them.
      total_steps: of a run.

    Raises:
      ValueError: the recipe cannot be carried, or a name is unknown.
    """

    def __init__(
        self,
        config: ConfigDict,
        *,
        dataset_size: int,
        batch_size: int,
        optimizers: Sequence[str] = (TUNED,),
        search: Sequence[str] = SEARCHED,
    ) -> None:
        self._config = _at_batch(config, batch_size, dataset_size)
        self._size = dataset_size
        schedule = self._config.schedule
        self.tuned = tuned_recipe(self._config, dataset_size)
        self._times = batch_size / schedule.batch_size
        if not schedule.learning_rate > 0.0 or self._times < 1.0:
            raise InputError(
                f"tune: a learning rate of {schedule.learning_rate:g}, tuned at batch {schedule.batch_size:,}, for "
                f"batch {batch_size:,}; expected a tuned learning rate above 0, and a batch of the tuned one or more."
            )
        if unknown := [each for each in search if each not in SEARCHED]:
            raise InputError(f"tune: search has {unknown[0]!r}. {nearest(unknown[0], SEARCHED)}")
        self._search = tuple(search)
        own = str(self._config.optimizer.name)
        named = [own if each == TUNED else each for each in optimizers]
        for each in named:
            if each not in registry.names():
                raise InputError(f"tune: optimizer {each!r} is unknown. {nearest(each, [TUNED, *registry.names()])}")
        self.optimizers = sorted(dict.fromkeys(named), key=lambda each: each != own)
        if not self.optimizers:
            raise InputError("tune: no optimizer; expected one name or more, as optimizers=('tuned', 'muon').")
        self.total_steps = dataclasses.replace(self.tuned, batch_size=batch_size).total_steps(dataset_size)

    def carried(self, optimizer: str) -> Point:
        """The first candidate of an optimizer: what is known before any run.

        Of the tuned one LEGW's learning rate and warm-up (Muon: the square-root rule's), with all else as tuned; of
        another the middle of what was best in runs of few steps.
        """
        if optimizer != self._config.optimizer.name:
            return Point(optimizer, warmup=sources.FEW_STEPS_WARMUP)
        scaled = self.tuned.at(self._config.batch_size, sources.rule_of(optimizer))
        share = scaled.warmup_epochs / (self.tuned.epochs or math.inf)
        return Point(optimizer, decay=self._kept_decay(optimizer), warmup=min(share, sources.LONG_WARMUP))

    def points(self, count: int) -> list[Point]:
        """The first `count` candidates, in turn of each optimizer.

        The first of an optimizer is the carried one; the others are an additive sequence of low discrepancy in the
        ranges of what is searched (Roberts 2018, "The Unreasonable Effectiveness of Quasirandom Sequences").
        """
        found = []
        for number in range(count):
            turn, which = divmod(number, len(self.optimizers))
            found.append(self._point(self.optimizers[which], turn))
        return found

    def beyond(self, best: Point, others: Sequence[Point]) -> Point | None:
        """A candidate past the end of the range of an optimizer's learning rates; None unless the best is there."""
        rates = sorted({each.rate for each in [*others, best] if each.optimizer == best.optimizer})
        if "rate" not in self._search or len(rates) < 2 or best.rate not in (rates[0], rates[-1]):
            return None
        neighbour = rates[1] if best.rate == rates[0] else rates[-2]
        ratio = min(max(best.rate / neighbour, 1 / sources.RATE_FACTOR), sources.RATE_FACTOR)
        return dataclasses.replace(best, rate=best.rate * ratio)

    def below(self, others: Sequence[Point]) -> Point:
        """A candidate far below all learning rates, where all diverged."""
        lowest = min(others, key=lambda each: each.rate)
        return dataclasses.replace(lowest, rate=lowest.rate / self.searched_rates(lowest.optimizer) ** 2)

    def searched_rates(self, optimizer: str) -> float:
        """The largest factor of an optimizer's middle learning rate; its inverse is the smallest."""
        own = optimizer == self._config.optimizer.name
        return sources.searched_rates(self._times) if own else sources.SEARCHED_RATES

    def within(self, optimizer: str, values: Mapping[str, float]) -> Point:
        """A candidate from numbers in [0, 1], by name: where each lies in its range. What is left out is as carried."""
        carried, rates = self.carried(optimizer), self.searched_rates(optimizer)
        (low, high), least = self._warmups(carried), min(1.0 / sources.SEARCHED_DECAYS, self._kept_decay(optimizer))
        spread = {
            "rate": lambda u: rates ** (2 * u - 1),
            "half_life": lambda u: u,
            "decay": lambda u: least * (sources.SEARCHED_DECAYS / least) ** u,
            "warmup": lambda u: low * (high / low) ** u,
        }
        return dataclasses.replace(carried, **{name: spread[name](u) for name, u in values.items()})

    def _point(self, optimizer: str, turn: int) -> Point:
        carried = self.carried(optimizer)
        if turn == 0:
            return carried
        decays = "weight_decay" in self.recipe_of(carried).optimizer
        names = [name for name in self._search if name != "decay" or decays]
        return self.within(optimizer, dict(zip(names, quasirandom(turn, len(names)))))

    def _kept_decay(self, optimizer: str) -> float:
        """The factor at which a weight decay stays as it is: learning rate x decay x steps falls."""
        decays = "weight_decay" in _scaled_arguments(self._config) and not self._is_in_loss(optimizer)
        return 1.0 / math.sqrt(self._times) if decays else 1.0

    def _is_in_loss(self, optimizer: str) -> bool:
        """True if the weight decay of this optimizer or of the tuned one is L2 in the gradient."""
        return bool({optimizer, self._config.optimizer.name} & set(sources.L2_IN_GRADIENT))

    @staticmethod
    def _warmups(carried: Point) -> tuple[float, float]:
        low, high = sources.SEARCHED_WARMUPS
        return min(low, carried.warmup or low), max(high, carried.warmup)

    def config_of(self, point: Point) -> ConfigDict:
        """The experiment of a candidate, with all numbers written out: no rule scales them."""
        recipe, config = self.recipe_of(point), _with_optimizer(self._config, point.optimizer)
        with config.optimizer.unlocked(), config.optimizer.ignore_type():
            config.optimizer.update(recipe.optimizer)
        return set_fields(
            config,
            {
                "schedule.batch_size": recipe.batch_size,
                "schedule.learning_rate": recipe.learning_rate,
                "schedule.warmup": "",
                "schedule.warmup_epochs": recipe.warmup_epochs,
                "schedule.rule": "none",
                "schedule.moments": "none",
                "schedule.weight_decay": "none",
            },
        )

    def recipe_of(self, point: Point) -> Recipe:
        """The recipe of a candidate at the batch size, with the arguments of the optimizer that are searched."""
        own = _scaled_arguments(self._config)
        tuned_decay = own.get("weight_decay", 0.0)
        decayed = self.tuned.learning_rate * tuned_decay * self.tuned.total_steps(self._size)
        if point.optimizer == self._config.optimizer.name:
            given, middle, shorter = own, self.tuned.learning_rate * math.sqrt(self._times), self._times
        else:
            given = self._fitted(_scaled_arguments(_with_optimizer(self._config, point.optimizer)))
            middle, shorter = math.sqrt(math.prod(sources.RATES.get(point.optimizer, sources.ADAMW_RATES))), _SHORTER
        before = moments.flat(given)
        changed = {
            name: _shortened(value, shorter ** (1.0 - point.half_life))
            for name, value in before.items()
            if name != "weight_decay"
        }
        heavy = point.optimizer in sources.HEAVY_BALL and "momentum" in changed
        rate = _rounded(
            middle * point.rate * ((1.0 - changed["momentum"]) / (1.0 - before["momentum"]) if heavy else 1.0)
        )
        if tuned_decay and self._is_in_loss(point.optimizer):
            changed["weight_decay"] = _rounded(tuned_decay * point.decay)
        elif decayed:
            changed["weight_decay"] = _rounded(decayed * point.decay / (rate * self.total_steps))
        return dataclasses.replace(
            self.tuned,
            batch_size=self._config.batch_size,
            learning_rate=rate,
            warmup_epochs=_rounded(point.warmup * (self.tuned.epochs or 0.0)),
            optimizer=moments.with_values(given, changed),
        )

    def _fitted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The default moments of an optimizer, with half-lives of at most a part of the run."""
        longest = 0.5 ** (1.0 / (sources.LONGEST_HALF_LIFE * self.total_steps))
        values = {name: value for name, value in moments.flat(given).items() if name != "weight_decay"}
        return moments.with_values(given, {name: min(value, longest) for name, value in values.items()})


def quasirandom(number: int, dimensions: int) -> list[float]:
    """The point `number` of an additive sequence of low discrepancy in [0, 1), of Roberts 2018; 0 is the middle."""
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    return [(0.5 + number * root ** -(1 + axis)) % 1.0 for axis in range(dimensions)]


def _shortened(beta: float, factor: float) -> float:
    """A moment with a half-life shorter by a factor, but half a step at least."""
    shortest = min(beta, 0.5 ** (1.0 / _SHORTEST))
    return round(max(shortest, moments.scaled_beta(beta, factor)), 6)


def _with_optimizer(config: ConfigDict, name: str) -> ConfigDict:
    """A copy with another optimizer, which keeps the fields that it takes."""
    config = copy.deepcopy(config)
    if name != config.optimizer.name:
        override(config, [f"optimizer.name={name}"])
    return config


def _scaled_arguments(config: ConfigDict) -> dict[str, Any]:
    """The moments and the weight decay of the config's optimizer, its defaults included."""
    config = copy.deepcopy(config)
    config.schedule.moments, config.schedule.weight_decay = "half_life_all", "kept"
    return optimizer_to_scale(config)


def _rounded(value: float) -> float:
    """To four digits, as it is printed: a run from the printed recipe is the same bit for bit."""
    return float(f"{value:.4g}")


def _at_batch(config: ConfigDict, batch_size: int, dataset_size: int) -> ConfigDict:
    """The experiment at another batch size, for as many examples."""
    config = copy.deepcopy(config)
    hold_tuned_batch(config)
    if config.phases or config.ramp.name != "none":
        raise InputError("tune: a run with phases or a batch ramp; expected one with a single batch size.")
    if config.schedule.rule == "none" and config.batch_size != config.schedule.batch_size:
        # What `advise` takes it for: without a rule the recipe is as it is at any batch.
        config.schedule.batch_size = config.batch_size
    amount, unit = parsed(config.duration)
    if unit == "step":
        config.duration = f"{round(amount * config.batch_size)} examples"
    config.batch_size = batch_size
    return config
