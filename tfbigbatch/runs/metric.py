"""The metric that tells the quality of a run: how it is shown, and which way is better."""

import dataclasses

from tfbigbatch import tasks


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric by name.

    Attributes:
      name: as in metrics.jsonl.
      higher_is_better: True for accuracy, False for perplexity.
      split: the held-out set that it is of.
    """

    name: str
    higher_is_better: bool = True
    split: str = "test"

    @classmethod
    def of_task(cls, task, split="test"):
        """The target of the task registered under a name, on one of its held-out sets."""
        found = tasks.get(task)
        return cls(found.target, found.higher_is_better, split)

    @property
    def title(self):
        """In words: test accuracy."""
        return f"{self.split} {self.name}"

    @property
    def is_share(self):
        """True where the values are shares of 1, and are shown in percent."""
        return "accuracy" in self.name

    def shown(self, value):
        if self.is_share:
            return f"{value:.2%}"
        # A perplexity that blew up has twenty digits.
        return f"{value:.2f}" if abs(value) < 1e6 else f"{value:.1e}"

    def shown_target(self, value):
        """A round number as people say it: 98%, not 98.00%."""
        return f"{value * 100:g}%" if self.is_share else f"{value:g}"

    def reaches(self, value, target):
        return value >= target if self.higher_is_better else value <= target

    def best(self, values):
        return max(values) if self.higher_is_better else min(values)

    def order(self, value):
        """Key to sort by, best first; None comes last."""
        if value is None:
            return float("inf")
        return -value if self.higher_is_better else value
