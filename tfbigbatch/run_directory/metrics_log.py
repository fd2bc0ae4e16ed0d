"""The rows of a run's metrics.jsonl, readable while the run writes them."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from tfbigbatch.utils.files import open_regular, reading_errors

Row = dict[str, Any]
"""A row of metrics.jsonl: 'step', 'split' ('train' or 'eval'), and scalars by name."""


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a metrics.jsonl; a line that a crash cut short, or that is not a row, is left out.

    A scalar is a finite float or int, or None: what is neither counts as one that was not finite.
    """
    rows: list[Row] = []
    if not os.path.exists(path):
        return rows
    with reading_errors(path), open_regular(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(row, dict) or type(row.get("step")) is not int or not isinstance(row.get("split"), str):
                continue
            if 0 <= row["step"] < 2**63:
                rows.append({name: value if name == "split" else _finite(value) for name, value in row.items()})
    return rows


def _finite(value: Any) -> Any:
    """The value where it is a finite number, else None."""
    # Compared, not asked by math.isfinite, which refuses large ints.
    return value if type(value) in (int, float) and -1e300 < value < 1e300 else None


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
                if name not in ("step", "split"):
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
