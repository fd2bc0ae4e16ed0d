"""The target metric of a run: its format, and whether higher is better."""

from __future__ import annotations

import dataclasses

from tfbigbatch import tasks


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric by name.

    Attributes:
      name: as in metrics.jsonl.
      higher_is_better: True for accuracy, False for perplexity.
      split: the held-out split that it is computed on.
    """

    name: str
    higher_is_better: bool = True
    split: str = "test"

    @classmethod
    def of_task(cls, task: str, split: str = "test") -> Metric:
        """The target of the task registered under a name, on one of its held-out splits."""
        found = tasks.get(task)
        return cls(found.target, found.higher_is_better, split)

    @property
    def title(self) -> str:
        """With its split: 'test accuracy'."""
        return f"{self.split} {self.name}"

    @property
    def is_fraction(self) -> bool:
        """True if the values are fractions of 1, shown in percent."""
        return "accuracy" in self.name

    def shown(self, value: float) -> str:
        """A measured value, formatted."""
        if self.is_fraction:
            return f"{value:.2%}"
        # The perplexity of a diverged run has twenty digits.
        return f"{value:.2f}" if abs(value) < 1e6 else f"{value:.1e}"

    def shown_target(self, value: float) -> str:
        """A target, formatted without trailing zeros: 98%, not 98.00%."""
        return f"{value * 100:g}%" if self.is_fraction else f"{value:g}"

    def reaches(self, value: float, target: float) -> bool:
        """True if a value is as good as a target."""
        return value >= target if self.higher_is_better else value <= target

    def order(self, value: float | None) -> float:
        """Sort key: best first, None last."""
        if value is None:
            return float("inf")
        return -value if self.higher_is_better else value
