"""Recipes and the rules that scale them to another batch size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.scaling import moments as of_moments
from tfbigbatch.schedules.by_name import build, check_decay
from tfbigbatch.schedules.classes import WARMUP_SHAPES
from tfbigbatch.schedules.durations import to_steps
from tfbigbatch.utils import arguments

# Each rule: (factor of the learning rate, factor of the warm-up epochs) for a batch k times as large.
RULES: dict[str, Callable[[float], tuple[float, float]]] = {
    "none": lambda k: (1.0, 1.0),
    "linear": lambda k: (k, 1.0),  # Goyal et al. 2017, arXiv:1706.02677
    "sqrt": lambda k: (math.sqrt(k), 1.0),  # Krizhevsky 2014, arXiv:1404.5997
    "legw": lambda k: (math.sqrt(k), k),  # You et al. 2019, arXiv:1901.08256
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A learning-rate schedule and the batch size that it was tuned at.

    Numbers of NumPy become Python's.

    Attributes:
      batch_size: examples in one step (the global batch: replicas and accumulation included).
      learning_rate: the peak learning rate, at the end of the warm-up.
      warmup_epochs: length of the warm-up from zero; may be fractional.
      epochs: length of the run, the same at every batch size; None if no schedule is needed, or for a constant learning
        rate without an end.
      decay: after the warm-up: a name of `schedules.DECAYS`, or a dictionary of 'name' and the decay's fields, with
        durations such as '30 epochs': {'name': 'multi_step', 'factor': 0.1, 'boundaries': ('30 epochs', '60 epochs')}.
      warmup_shape: shape of the warm-up, 'linear', or 'exponential' as in MLPerf's GNMT.
      optimizer: arguments of the optimizer at this batch, such as {'beta_2': 0.999, 'weight_decay': 0.01}. `at` scales
        its moments and weight decay where it is asked to, and leaves the others: LAMB(schedule, **scaled.optimizer).

    Raises:
      ValueError: a number is out of range, the decay or the shape is unknown, or the decay lacks a field or does not
        take one.
    """

    batch_size: int
    learning_rate: float
    warmup_epochs: float = 0.0
    epochs: float | None = None
    decay: str | dict = "constant"
    warmup_shape: str = "linear"
    # A dictionary has no hash.
    optimizer: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "batch_size": arguments.integer("batch_size", self.batch_size, least=1, owner="Recipe"),
            "learning_rate": arguments.number("learning_rate", self.learning_rate, least=0, owner="Recipe"),
            "warmup_epochs": arguments.number("warmup_epochs", self.warmup_epochs, least=0, owner="Recipe"),
        }
        if self.epochs is not None:
            checked["epochs"] = arguments.number("epochs", self.epochs, above=0, owner="Recipe")
        checked["optimizer"] = of_moments.checked_fields(self.optimizer, "Recipe: optimizer")
        for name, value in checked.items():
            # Frozen: Python's numbers replace those that were given.
            object.__setattr__(self, name, value)
        arguments.one_of("warmup_shape", self.warmup_shape, WARMUP_SHAPES, owner="Recipe")
        name, fields = self._decay()
        check_decay(name, self._in_steps(fields, self.batch_size))

    def _decay(self) -> tuple[str, dict[str, Any]]:
        """The name and the fields of the decay."""
        if not isinstance(self.decay, Mapping):
            return self.decay, {}
        fields = dict(self.decay)
        return fields.pop("name", None), fields

    def _in_steps(self, fields: dict[str, Any], dataset_size: int) -> dict[str, Any]:
        """The fields of the decay with durations as steps."""

        def steps(name: str, duration: str) -> int:
            return to_steps(duration, name=name, batch_size=self.batch_size, dataset_size=dataset_size)

        fields = {**fields, **{name: steps(name, fields[name]) for name in ("every", "start") if name in fields}}
        if "boundaries" in fields:
            boundaries = arguments.items("boundaries", fields["boundaries"])
            fields["boundaries"] = [steps("boundaries", duration) for duration in boundaries]
        return fields

    def at(
        self,
        batch_size: int,
        rule: str = "legw",
        *,
        accumulation_steps: int = 1,
        moments: str = "none",
        weight_decay: str = "none",
    ) -> Recipe:
        """The recipe scaled to `batch_size` by a rule of `RULES`.

        Args:
          batch_size: examples in one forward and backward pass, over all replicas.
          rule: 'none', 'linear', 'sqrt' or 'legw'.
          accumulation_steps: passes per step; the global batch is batch_size * accumulation_steps.
          moments: of `optimizer`, those that keep their half-life in examples: 'none'; 'half_life', the second moments
            (beta_2, normuon_beta); or 'half_life_all', also beta_1, momentum and ema_momentum. Those of vectors, a
            dictionary, too. See `MOMENTS`.
          weight_decay: 'none'; or 'kept', which keeps weight decay x learning rate x steps.

        Raises:
          ValueError: a name is unknown, a size is below 1, or `optimizer` has no argument that is to be scaled.
        """
        arguments.one_of("rule", rule, RULES)
        batch_size = arguments.integer("batch_size", batch_size, least=1)
        accumulation_steps = arguments.integer("accumulation_steps", accumulation_steps, least=1)
        global_batch_size = batch_size * accumulation_steps
        factor = global_batch_size / self.batch_size
        rate_factor, warmup_factor = RULES[rule](factor)
        return dataclasses.replace(
            self,
            batch_size=global_batch_size,
            learning_rate=self.learning_rate * rate_factor,
            warmup_epochs=self.warmup_epochs * warmup_factor,
            optimizer=of_moments.scaled_fields(
                self.optimizer, factor, rate_factor, moments=moments, weight_decay=weight_decay
            ),
        )

    def arithmetic(self, scaled: Recipe) -> str:
        """The change to `scaled` as text: 'x16 batch: learning rate 0.1 -> 0.4 (x4), warm-up 0.3125 -> 5 epochs'.

        Raises:
          ValueError: `scaled` is no recipe.
        """
        return ", ".join(self.changes(scaled))

    def changes(self, scaled: Recipe) -> list[str]:
        """The parts of `arithmetic`: the schedule, then each argument of the optimizer that differs.

        Raises:
          ValueError: `scaled` is no recipe.
        """
        if not isinstance(scaled, Recipe):
            raise InputError(f"scaled={scaled!r} is not a Recipe: take what `at` returns.")

        def change(before: float, after: float) -> str:
            return f"{before:.4g}" if before == after else f"{before:.4g} -> {after:.4g}"

        factor = scaled.batch_size / self.batch_size
        learning_rate = change(self.learning_rate, scaled.learning_rate)
        if scaled.learning_rate != self.learning_rate and self.learning_rate:
            learning_rate += f" (x{scaled.learning_rate / self.learning_rate:.4g})"
        return [
            f"x{factor:.4g} batch: learning rate {learning_rate}, "
            f"warm-up {change(self.warmup_epochs, scaled.warmup_epochs)} epochs",
            *of_moments.changes(self.optimizer, scaled.optimizer),
        ]

    def warmup_steps(self, dataset_size: int) -> int:
        """The warm-up in optimizer steps, for `dataset_size` examples in an epoch.

        Raises:
          ValueError: `dataset_size` is not a whole number of 1 or more.
        """
        dataset_size = arguments.integer("dataset_size", dataset_size, least=1)
        return round(self.warmup_epochs * dataset_size / self.batch_size)

    def total_steps(self, dataset_size: int) -> int:
        """The length of the run in optimizer steps, rounded; at least 1.

        Raises:
          ValueError: the recipe has no `epochs`, or `dataset_size` is not a whole number of 1 or more.
        """
        dataset_size = arguments.integer("dataset_size", dataset_size, least=1)
        if self.epochs is None:
            raise InputError("this recipe has no length: set its epochs, such as Recipe(..., epochs=90).")
        return max(1, round(self.epochs * dataset_size / self.batch_size))

    def schedule(self, dataset_size: int, keras: str | None = None) -> Any:
        """The Keras schedule of this recipe, in optimizer steps.

        This package's optimizers count steps, not micro-batches, whatever their accumulation_steps.

        Args:
          dataset_size: examples in an epoch.
          keras: 'tf_keras', 'keras3', or None for the `tf.keras` in use.

        Raises:
          ValueError: the warm-up is longer than the run, a decay that ends with the run has no `epochs`, or
            `dataset_size` is not a whole number of 1 or more.
        """
        name, fields = self._decay()
        fields = self._in_steps(fields, dataset_size)
        warmup_steps = self.warmup_steps(dataset_size)
        # A learning rate that is constant after the warm-up needs no length.
        endless = self.epochs is None and name in ("constant", "exponential", "multi_step")
        total_steps = max(warmup_steps, fields.get("start", 0)) if endless else self.total_steps(dataset_size)
        return build(
            self.learning_rate,
            warmup_steps=warmup_steps,
            total_steps=total_steps,
            decay=name,
            warmup_shape=self.warmup_shape,
            keras=keras,
            **fields,
        )

    def lines(self, dataset_size: int) -> list[str]:
        """A summary of the recipe for `dataset_size` examples in an epoch.

        Raises:
          ValueError: `dataset_size` is not a whole number of 1 or more.
        """
        dataset_size = arguments.integer("dataset_size", dataset_size, least=1)
        steps_per_epoch = dataset_size / self.batch_size
        lines = [
            f"batch      {self.batch_size:,}: {steps_per_epoch:,.4g} steps per epoch of {dataset_size:,} examples",
            f"peak       learning rate {self.learning_rate:.4g}",
            f"warm-up    {self.warmup_epochs:.4g} epochs = {self.warmup_steps(dataset_size):,} steps",
        ]
        if self.epochs is not None:
            total = self.total_steps(dataset_size)
            lines.append(f"length     {self.epochs:.4g} epochs = {total:,} steps")
        lines.append(f"decay      {self._decay()[0]}")
        if self.optimizer:
            fields = of_moments.flat(self.optimizer)
            lines.append(f"optimizer  {', '.join(f'{name} {of_moments.shown(name, fields[name])}' for name in fields)}")
        return lines
