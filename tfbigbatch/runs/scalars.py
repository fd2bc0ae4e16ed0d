"""The scalars of a run as series over its steps, readable while the run writes them."""

from __future__ import annotations

import math
import os

from tfbigbatch.runs.metrics_log import read_rows

_NOT_SCALARS = ("step", "split")


class Scalars:
    """The content of a run's metrics.jsonl; empty where there is none yet.

    Args:
      directory: the run directory.

    Attributes:
      last_step: the last step that has a row; 0 before the first.
    """

    def __init__(self, directory: str) -> None:
        self._series: dict[tuple[str, str], dict[int, float]] = {}
        self.last_step = 0
        for row in read_rows(os.path.join(directory, "metrics.jsonl")):
            self.last_step = max(self.last_step, row["step"])
            for name, value in row.items():
                if name not in _NOT_SCALARS:
                    # null stands for NaN and infinity: a gap in a plotted line.
                    series = self._series.setdefault((row["split"], name), {})
                    series[row["step"]] = math.nan if value is None else value

    def names(self, split: str) -> list[str]:
        """The names of a split's scalars, in order of first appearance."""
        return [name for of, name in self._series if of == split]

    def series(self, split: str, name: str) -> dict[int, float]:
        """Values by step, NaN where a value was not finite; empty for an unknown name."""
        return dict(sorted(self._series.get((split, name), {}).items()))

    def last(self, split: str, name: str) -> tuple[float, int] | tuple[None, None]:
        """The last finite value and its step; (None, None) where there is none."""
        finite = [(value, step) for step, value in self.series(split, name).items() if math.isfinite(value)]
        return finite[-1] if finite else (None, None)

    def below(self, split: str, prefix: str) -> dict[str, dict[int, float]]:
        """The series of the scalars with a prefix, by the rest of their names."""
        return {name[len(prefix) :]: self.series(split, name) for name in self.names(split) if name.startswith(prefix)}
