"""The scalars of a run, as series over its updates; readable while the run goes on writing them."""

import math
import os

from tfbigbatch.runs.metrics_log import read_rows

_NOT_SCALARS = ("step", "split")


class Scalars:
    """What a run's metrics.jsonl holds now; empty where there is none yet.

    Args:
      directory: the run directory.

    Attributes:
      last_step: the last update of which there is a row; 0 before the first.
    """

    def __init__(self, directory):
        self._series = {}
        self.last_step = 0
        for row in read_rows(os.path.join(directory, "metrics.jsonl")):
            self.last_step = max(self.last_step, row["step"])
            for name, value in row.items():
                if name not in _NOT_SCALARS:
                    # null stands for what was not finite: a gap in the line.
                    series = self._series.setdefault((row["split"], name), {})
                    series[row["step"]] = math.nan if value is None else value

    def names(self, split):
        """The names of a split's scalars, in the order of their first appearance."""
        return [name for of, name in self._series if of == split]

    def series(self, split, name):
        """Dictionary of update to value, NaN where it was not finite; empty where there is none."""
        return dict(sorted(self._series.get((split, name), {}).items()))

    def last(self, split, name):
        """The last finite value and its update; (None, None) where there is none."""
        finite = [(step, value) for step, value in self.series(split, name).items() if math.isfinite(value)]
        return finite[-1][::-1] if finite else (None, None)

    def below(self, split, prefix):
        """Dictionary of what follows the prefix in a scalar's name to its series."""
        return {name[len(prefix) :]: self.series(split, name) for name in self.names(split) if name.startswith(prefix)}
