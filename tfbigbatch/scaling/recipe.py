"""From a recipe tuned at one batch size to the same recipe at another."""

import dataclasses
import math

from tfbigbatch.errors import InputError, nearest

# Each rule: (factor of the learning rate, factor of the warm-up epochs) for a batch k times as large.
RULES = {
    "none": lambda k: (1.0, 1.0),
    "linear": lambda k: (k, 1.0),  # Goyal et al. 2017, arXiv:1706.02677
    "sqrt": lambda k: (math.sqrt(k), 1.0),  # Krizhevsky 2014, arXiv:1404.5997
    "legw": lambda k: (math.sqrt(k), k),  # You et al. 2019, arXiv:1901.08256
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A learning rate and its warm-up, with the batch size that they were tuned at.

    Attributes:
      batch_size: examples in one update (the global batch).
      learning_rate: the peak rate, at the warm-up's end.
      warmup_epochs: length of the warm-up from zero; a fraction is fine.
    """

    batch_size: int
    learning_rate: float
    warmup_epochs: float = 0.0

    def __post_init__(self):
        if self.batch_size < 1:
            raise InputError(f"a recipe's batch_size is at least 1; got {self.batch_size}.")
        if self.warmup_epochs < 0:
            raise InputError(f"a recipe's warmup_epochs is 0 or more; got {self.warmup_epochs}.")

    def at(self, batch_size, rule="legw"):
        """The recipe carried to `batch_size` by a rule of `RULES`.

        Raises:
          ValueError: the rule is unknown, or the batch size is below 1.
        """
        if rule not in RULES:
            raise InputError(f"scaling rule {rule!r} is unknown. {nearest(rule, RULES)}")
        rate_factor, warmup_factor = RULES[rule](batch_size / self.batch_size)
        return Recipe(batch_size, self.learning_rate * rate_factor, self.warmup_epochs * warmup_factor)

    def arithmetic(self, scaled):
        """The numbers behind `scaled`, as 'x16 batch: rate 0.1 -> 0.4 (x4), warm-up 0.3125 -> 5 epochs'."""

        def change(before, after):
            return f"{before:.4g}" if before == after else f"{before:.4g} -> {after:.4g}"

        factor = scaled.batch_size / self.batch_size
        rate = change(self.learning_rate, scaled.learning_rate)
        if scaled.learning_rate != self.learning_rate:
            rate += f" (x{scaled.learning_rate / self.learning_rate:.4g})"
        return f"x{factor:.4g} batch: rate {rate}, warm-up {change(self.warmup_epochs, scaled.warmup_epochs)} epochs"
