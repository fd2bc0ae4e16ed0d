"""Batch ramps: the batch grows while a run trains, and the learning rate follows it.

Early in a run the critical batch is small and later large (McCandlish et al. 2018, arXiv:1812.06162; Merrill et al.
2025, arXiv:2505.23971), so that small batches are needed for the first examples only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tfbigbatch import keras_version
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers.rule import AccumulationSchedule
from tfbigbatch.scaling.recipe import RULES, Recipe
from tfbigbatch.schedules.classes import in_phases
from tfbigbatch.schedules.durations import parsed
from tfbigbatch.utils import arguments

RAMP_RULES = ("sqrt", "linear", "none")
"""The rules for the factor of the learning rate at k times the first batch: sqrt(k), k, or 1."""

MOST_STAGES = 12
"""Batch sizes of a ramp: each is a shape that TensorFlow compiles the training step for."""

# A decay is followed until it is at 1 / 1,024 of the peak.
_SMALLEST = 1024.0


@dataclasses.dataclass(frozen=True)
class Stage:
    """The steps of a ramp at one batch size.

    Attributes:
      batch_size: examples in a step.
      first_step: the first of its steps, counted from the run's first.
      steps: number of them.
      first_example: examples seen before it; a multiple of the first batch.
      factor: of the learning rate that the recipe has after as many examples.
      start: steps of the first batch before it.
      pace: steps of the first batch in one of its own.
    """

    batch_size: int
    first_step: int
    steps: int
    first_example: int
    factor: float
    start: float
    pace: float

    @property
    def last_step(self) -> int:
        """The step after its last."""
        return self.first_step + self.steps


@dataclasses.dataclass(frozen=True)
class BatchRamp:
    """A batch size that grows while a run trains, and the learning rate of every step.

    After e examples the learning rate is `recipe`'s after e examples, times what `rule` gives for the batch at that
    point. By 'sqrt' a decay to half and a batch twice as large are one cut of the learning rate by sqrt(2), as in
    Seesaw; by 'linear' they cancel out, as in Smith et al. 2018 (arXiv:1711.00489).

    `doubling`, `seesaw` and `following` make the usual ones.

    Attributes:
      recipe: of the run, at the batch that it begins with; with `epochs`.
      growth: (duration, batch size) of each larger batch: the examples, epochs, or steps of the first batch before it,
        rounded to whole steps of the batch before. Each is a multiple of the first batch, so that the order of the
        examples stays exactly that of the first batch.
      rule: 'sqrt', 'linear' or 'none'.

    Raises:
      ValueError: a batch is no larger than the one before it or no multiple of the first, or there are more than 12;
        the recipe has no length; the rule is unknown.
    """

    recipe: Recipe
    growth: Sequence[tuple[str, int]]
    rule: str = "sqrt"

    def __post_init__(self) -> None:
        recipe = _checked_recipe(self.recipe)
        arguments.one_of("rule", self.rule, RAMP_RULES, owner="BatchRamp")
        growth, before = [], recipe.batch_size
        for index, entry in enumerate(arguments.items("growth", self.growth, owner="BatchRamp")):
            name = f"growth[{index}]"
            duration, batch_size = _pair(name, entry, "batch size")
            parsed(duration, name=name)
            batch_size = arguments.integer(name, batch_size, least=1, owner="BatchRamp")
            if batch_size <= before or batch_size % recipe.batch_size:
                raise InputError(
                    f"BatchRamp: {name} has batch {batch_size} after {before}; expected a larger one that is a "
                    f"multiple of the first, {recipe.batch_size}, such as {2 * before}: the examples then keep their "
                    "order."
                )
            growth.append((duration, batch_size))
            before = batch_size
        if len(growth) >= MOST_STAGES:
            raise InputError(
                f"BatchRamp: {len(growth) + 1} batch sizes; expected {MOST_STAGES} at most, since the training step is "
                "compiled for each. Let the batch grow by a larger factor."
            )
        object.__setattr__(self, "growth", tuple(growth))

    # ---- The usual ramps ----------------------------------------------------------------------

    @classmethod
    def doubling(
        cls,
        recipe: Recipe,
        to: int,
        *,
        over: str,
        factor: int = 2,
        equal: str = "examples",
        rule: str = "sqrt",
    ) -> BatchRamp:
        """The batch grows by a factor until it is `to`: the batch warm-up of OLMo (arXiv:2505.23971).

        Args:
          recipe: of the run, at the batch that it begins with.
          to: the last batch, that of the recipe times a power of `factor`.
          over: duration of all stages but the last, as '6 epochs'.
          factor: from each batch to the next, a whole number of 2 or more; the last growth may be smaller.
          equal: what the stages before the last have equally many of: 'examples' or 'steps'.
          rule: of the learning rate.

        Raises:
          ValueError: an argument cannot be used.
        """
        sizes = _sizes(_checked_recipe(recipe), to, factor)
        value, unit = parsed(over, name="over")
        arguments.one_of("equal", equal, ("examples", "steps"), owner="BatchRamp.doubling")
        weights = [1.0 if equal == "examples" else float(size) for size in sizes[:-1]]
        fractions = [sum(weights[: index + 1]) / sum(weights) for index in range(len(weights))]
        return cls(recipe, [(f"{value * part!r} {unit}s", size) for part, size in zip(fractions, sizes[1:])], rule)

    @classmethod
    def seesaw(cls, recipe: Recipe, to: int, *, dataset_size: int, cut: int = 2, rule: str = "sqrt") -> BatchRamp:
        """Seesaw: each decay of the learning rate by `cut` becomes a batch `cut` times as large (arXiv:2510.14717, 1).

        The decay is taken in cuts, at the points where the recipe's has fallen as far; with `rule` 'sqrt' a cut that
        grows the batch lowers the learning rate by sqrt(cut) alone. Beyond the batch `to` the cuts are whole ones. For
        momentum SGD, 'linear' is Smith et al. 2018: it holds the learning rate, and the batch takes all of the decay.

        Args:
          recipe: of the run, at the batch that it begins with; its decay falls to 1 / cut at least.
          to: the largest batch, that of the recipe times a power of `cut`.
          dataset_size: examples in an epoch.
          cut: a whole number of 2 or more.
          rule: of the learning rate.

        Raises:
          ValueError: an argument cannot be used, or the decay falls too little to reach `to`.
        """
        sizes = _sizes(_checked_recipe(recipe), to, cut, factor_name="cut")
        if recipe.learning_rate == 0:
            raise InputError("BatchRamp.seesaw: the recipe's learning rate is 0, and there is no decay to follow.")
        examples = [step * recipe.batch_size for step in _cuts(recipe, dataset_size, cut)]
        if len(examples) < len(sizes) - 1:
            raise InputError(
                f"BatchRamp.seesaw: the decay {recipe.decay!r} is cut {len(examples)} times by {cut}; to={to} takes "
                f"{len(sizes) - 1}. Lower `to`, or use a decay that ends lower, as 'cosine'."
            )
        # A stage begins at the first whole step after its cut.
        begin = 0
        for index, size in enumerate(sizes[:-1]):
            begin = examples[index] = begin + max(0, math.ceil((examples[index] - begin) / size)) * size
        # Where a step decay is several cuts at once, the batch takes all of them.
        growth = {f"{start} examples": size for start, size in zip(examples, sizes[1:])}
        boundaries = tuple(f"{each} examples" for each in _apart(examples, recipe.batch_size))
        in_cuts = dataclasses.replace(
            recipe, decay={"name": "multi_step", "factor": 1.0 / cut, "boundaries": boundaries}
        )
        return cls(in_cuts, list(growth.items()), rule)

    @classmethod
    def following(
        cls,
        recipe: Recipe,
        measured: Iterable[tuple[str, float]],
        *,
        most: int | None = None,
        factor: int = 2,
        rule: str = "sqrt",
    ) -> BatchRamp:
        """The batch follows measurements of the critical batch, as `tfbigbatch critical-batch` has them.

        Args:
          recipe: of the run, at the batch that it begins with.
          measured: (duration, critical batch in examples) along training, in order. A measurement holds from its point
            on; the batch is the largest of the recipe's times powers of `factor` that is no larger, and never shrinks.
            With `most` a critical batch may be infinity, as beyond the largest branch.
          most: the largest batch; None for no bound but the measurements.
          factor: a whole number of 2 or more.
          rule: of the learning rate.

        Raises:
          ValueError: an argument cannot be used.
        """
        recipe = _checked_recipe(recipe)
        factor = arguments.integer("factor", factor, least=2, owner="BatchRamp")
        bound = math.inf if most is None else arguments.integer("most", most, least=1, owner="BatchRamp")
        growth, batch_size = [], recipe.batch_size
        for index, entry in enumerate(arguments.items("measured", measured, owner="BatchRamp")):
            duration, critical = _pair(f"measured[{index}]", entry, "critical batch")
            if most is None or critical != math.inf:
                critical = arguments.number(f"measured[{index}]", critical, above=0, owner="BatchRamp")
            grown = batch_size
            while grown * factor <= min(critical, bound):
                grown *= factor
            if grown > batch_size:
                if parsed(duration, name=f"measured[{index}]")[0] == 0:
                    raise InputError(
                        f"BatchRamp.following: measured[{index}] allows {grown} from the run's first step on. Begin "
                        f"with a recipe at that batch, as Recipe.at({grown}, rule='sqrt')."
                    )
                growth.append((duration, grown))
            batch_size = grown
        return cls(recipe, growth, rule)

    # ---- What it gives ------------------------------------------------------------------------

    @property
    def batch_sizes(self) -> list[int]:
        """All batch sizes, rising."""
        return [self.recipe.batch_size, *(batch_size for _, batch_size in self.growth)]

    def _factor(self, batch_size: int) -> float:
        """The factor of the learning rate at a batch size."""
        return RULES[self.rule](batch_size / self.recipe.batch_size)[0]

    def _starts(self, dataset_size: int) -> list[float]:
        """The examples before each batch size of `batch_sizes`, not yet rounded."""
        examples = {"example": 1, "step": self.recipe.batch_size, "epoch": dataset_size}
        durations = [parsed(duration, name="growth") for duration, _ in self.growth]
        return [0.0, *(value * examples[unit] for value, unit in durations)]

    def stages(self, dataset_size: int) -> list[Stage]:
        """The stages of the run, one for each batch size.

        Args:
          dataset_size: examples in an epoch.

        Raises:
          ValueError: a batch is larger than the data set, a stage lasts no step, or the ramp is longer than the run.
        """
        dataset_size = arguments.integer("dataset_size", dataset_size, least=1, owner="BatchRamp")
        if self.batch_sizes[-1] > dataset_size:
            raise InputError(
                f"the ramp grows to a batch of {self.batch_sizes[-1]:,}, and there are {dataset_size:,} training "
                "examples. Let it end at a smaller batch."
            )
        assert self.recipe.epochs is not None
        ends = [*self._starts(dataset_size)[1:], self.recipe.epochs * dataset_size]
        found: list[Stage] = []
        first, begin, first_step = self.recipe.batch_size, 0, 0
        for size, end in zip(self.batch_sizes, ends):
            steps = round((end - begin) / size)
            if steps < 1:
                raise InputError(
                    f"the ramp's batch {size:,} lasts no step, or the ramp is longer than the run: batch {size:,} "
                    f"begins after {begin:,} examples ({begin / dataset_size:.4g} epochs), and the next batch or the "
                    f"end of the run comes after {round(end):,} ({end / dataset_size:.4g}). Move them apart, or leave "
                    "the batch out."
                )
            found.append(Stage(size, first_step, steps, begin, self._factor(size), begin / first, size / first))
            begin, first_step = begin + steps * size, found[-1].last_step
        return found

    def stages_of_epochs(self, examples_in_epoch: Callable[[int], int]) -> list[Stage]:
        """The stages where a batch may begin with an epoch only, as for streams that carry state.

        Beginnings are rounded to the nearest epoch; where two are the same, the larger batch is taken.

        Args:
          examples_in_epoch: function of the batch size: an epoch of streams is whole batches.

        Raises:
          ValueError: the batch grows within the first half of an epoch, or not before the run's last one.
        """
        size = examples_in_epoch(self.recipe.batch_size)
        assert self.recipe.epochs is not None
        by_epoch = {round(start / size): batch for start, batch in zip(self._starts(size), self.batch_sizes)}
        last = max(by_epoch)
        if by_epoch[0] != self.recipe.batch_size or last >= self.recipe.epochs:
            raise InputError(
                f"the ramp grows at epoch {', '.join(f'{start / size:.4g}' for start in self._starts(size)[1:])} of "
                f"{self.recipe.epochs:.4g}; this task's streams can begin with an epoch only, after the first and "
                "before the end of the run. Give such epochs."
            )
        ends = [*sorted(by_epoch)[1:], self.recipe.epochs]
        steps_at_first = size // self.recipe.batch_size
        found: list[Stage] = []
        for (epoch, batch), end in zip(sorted(by_epoch.items()), ends):
            steps_in_epoch = examples_in_epoch(batch) // batch
            first_step = found[-1].last_step if found else 0
            steps = max(1, round((end - epoch) * steps_in_epoch))
            begin, pace = epoch * steps_in_epoch * batch, steps_at_first / steps_in_epoch
            found.append(
                Stage(batch, first_step, steps, begin, self._factor(batch), float(epoch * steps_at_first), pace)
            )
        return found

    def total_steps(self, dataset_size: int) -> int:
        """The length of the run in optimizer steps."""
        return self.stages(dataset_size)[-1].last_step

    def schedule(self, dataset_size: int, keras: str | None = None) -> Any:
        """The learning rate of every optimizer step, as a Keras schedule.

        Args:
          dataset_size: examples in an epoch.
          keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

        Raises:
          ValueError: as for `stages` and for `Recipe.schedule`.
        """
        stages = self.stages(dataset_size)
        base = self.recipe.schedule(dataset_size, keras=keras)
        return in_phases(
            [self.schedule_of(stage, base, keras=keras) for stage in stages],
            [stage.steps for stage in stages],
            keras=keras,
        )

    def schedule_of(self, stage: Stage, base: Any, *, keras: str | None = None) -> Any:
        """The learning rate of a stage, counted from its own first step.

        Args:
          stage: of `stages`.
          base: the recipe's schedule.
          keras: as for `schedule`.
        """
        classes = keras_version.module_for("tfbigbatch.schedules", keras)
        return classes.RescaledSchedule(base, stage.start, stage.pace, stage.factor)

    def accumulation(self, dataset_size: int, micro_batch_size: int) -> AccumulationSchedule:
        """The ramp for anyone's `fit`: the `accumulation_steps` of LARS, LAMB, Muon and Shampoo, in both Keras.

        `fit` is given batches of `micro_batch_size`, whole ones only, and keeps its one compiled shape.

        Args:
          dataset_size: examples in an epoch.
          micro_batch_size: examples in a batch of `fit`, over all replicas; it divides the ramp's first batch.

        Raises:
          ValueError: as for `stages`, or the micro-batch does not divide the first batch.
        """
        micro_batch_size = arguments.integer("micro_batch_size", micro_batch_size, least=1, owner="BatchRamp")
        first = self.recipe.batch_size
        if first % micro_batch_size:
            divisors = sorted({math.gcd(first, micro_batch_size), first})
            raise InputError(
                f"BatchRamp: micro_batch_size={micro_batch_size} does not divide the ramp's first batch, {first}; "
                f"expected a divisor of it, such as {' or '.join(map(str, divisors))}, so that each step is whole "
                "micro-batches."
            )
        stages = self.stages(dataset_size)
        return AccumulationSchedule(
            [stage.batch_size // micro_batch_size for stage in stages], [stage.steps for stage in stages]
        )

    def lines(self, dataset_size: int, stages: Sequence[Stage] | None = None) -> list[str]:
        """A summary: the stages, and the steps that are saved.

        Args:
          dataset_size: examples in an epoch.
          stages: as `stages_of_epochs` gives them; None: those of `stages`.

        Raises:
          ValueError: as for `stages`.
        """
        stages = self.stages(dataset_size) if stages is None else stages
        rows = [
            f"batch {stage.batch_size:,} from epoch {stage.first_example / dataset_size:.4g}: {stage.steps:,} steps, "
            f"learning rate x{stage.factor:.4g}"
            for stage in stages
        ]
        steps, small = stages[-1].last_step, self.recipe.total_steps(dataset_size)
        return [
            *rows,
            f"{steps:,} steps in all, {steps / small:.1%} of {small:,} at batch {stages[0].batch_size:,}",
        ]


def _checked_recipe(recipe: Any) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise InputError(f"BatchRamp: recipe={recipe!r}; expected a tfbigbatch.Recipe, at the run's first batch.")
    if recipe.epochs is None:
        raise InputError("BatchRamp: the recipe has no length: set its epochs, such as Recipe(..., epochs=90).")
    return recipe


def _pair(name: str, entry: Any, what: str) -> tuple[Any, Any]:
    if isinstance(entry, str) or not isinstance(entry, Sequence) or len(entry) != 2:
        raise InputError(f"BatchRamp: {name}={entry!r}; expected (duration, {what}), as ('2 epochs', 512).")
    return entry[0], entry[1]


def _apart(examples: Sequence[int], least: int) -> list[int]:
    """Rising numbers at least as far apart: where several are the same, or fall, the earlier ones are lowered."""
    found = list(examples)
    for index in reversed(range(len(found) - 1)):
        found[index] = min(found[index], found[index + 1] - least)
    return found


def _sizes(recipe: Recipe, to: int, factor: int, factor_name: str = "factor") -> list[int]:
    """The batch sizes from the recipe's to `to`, each `factor` times the one before it; the last may be less."""
    to = arguments.integer("to", to, least=1, owner="BatchRamp")
    factor = arguments.integer(factor_name, factor, least=2, owner="BatchRamp")
    sizes = [recipe.batch_size]
    while sizes[-1] * factor <= to:
        sizes.append(sizes[-1] * factor)
    if to > sizes[-1] and to % recipe.batch_size == 0:
        sizes.append(to)
    if to != sizes[-1] or len(sizes) == 1:
        first = recipe.batch_size
        below = max(2, to // first) * first
        raise InputError(
            f"BatchRamp: to={to} is no larger multiple of the first batch, {first}; expected such as {below} or "
            f"{below + first}."
        )
    return sizes


def _cuts(recipe: Recipe, dataset_size: int, cut: int) -> list[int]:
    """The steps of the recipe at which its decay has reached 1 / cut, 1 / cut ** 2, ... of the peak, rising."""
    schedule = recipe.schedule(dataset_size, keras="keras3")
    first, last = recipe.warmup_steps(dataset_size), recipe.total_steps(dataset_size)

    def fallen(step: int, to: float) -> bool:
        return float(schedule(step)) <= to * (1 + 1e-6)

    found: list[int] = []
    level = recipe.learning_rate / cut
    while level * _SMALLEST >= recipe.learning_rate and fallen(last - 1, level):
        low, high = first, last - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if fallen(middle, level) else (middle + 1, high)
        # Several may fall on one step, as where a decay is by 10. Where it ends at 0, the last step has only one.
        if not found or low > found[-1] or low < last - 1:
            found.append(low)
        level /= cut
    return found
