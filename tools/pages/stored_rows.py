"""Rows of the tables in results/: one method at one batch size, over its seeds."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfbigbatch.config.fields import completed
from tfbigbatch.config.overrides import compared
from tfbigbatch.run_directory.metric import Metric

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a results file.

    Attributes:
      name: of the method, as in the sweep.
      batch_size: examples per step.
      metric: the target of the task.
      mean: of the metric at the end, over the seeds that ended; None where a run diverged or none has ended.
      deviation: standard deviation over seeds; None for one seed.
      ended, seeds: numbers of seeds.
      steps: optimizer steps of a run.
      steps_to_target: mean over seeds; None where the file has no target or a seed does not reach it.
      tuned: where or how the learning rate was chosen, as the sweep says it.
      config: of the first seed.
    """

    name: str
    batch_size: int
    metric: Metric
    mean: float | None
    deviation: float | None
    ended: int
    seeds: int
    steps: int
    steps_to_target: float | None
    tuned: str
    config: Mapping[str, Any]

    @property
    def value(self) -> str:
        """Mean and standard deviation, as a table shows them."""
        if self.mean is None:
            return "diverged"
        spread = "" if self.deviation is None else f" ± {self.metric.shown(self.deviation)}"
        return self.metric.shown(self.mean) + spread


@functools.cache
def rows(path: str) -> tuple[Row, ...]:
    """The rows of a results file, in its order.

    Args:
      path: relative to the root of the repository, as "results/mnist.json".
    """
    stored = json.loads((ROOT / path).read_text(encoding="utf-8"))
    higher = stored.get("higher_is_better", True)
    return tuple(_row(each, higher) for each in stored["runs"])


def _row(stored: Mapping[str, Any], higher_is_better: bool) -> Row:
    split = stored["config"].get("evaluate_on", "test")
    values = [value for value in stored["values"] if value is not None]
    return Row(
        name=stored["name"],
        batch_size=stored["batch_size"],
        metric=Metric(stored["metric"], higher_is_better, split),
        mean=stored["mean"],
        deviation=stored["standard_deviation"],
        ended=len(values),
        seeds=len(stored["values"]),
        steps=stored["steps"],
        steps_to_target=stored.get("updates_to_target"),
        tuned=stored.get("tuned") or "",
        config=stored["config"],
    )


def find(path: str, name: str, batch_size: int) -> Row:
    """The row of a method at a batch size.

    Raises:
      ValueError: the file has none, or several.
    """
    found = [row for row in rows(path) if (row.name, row.batch_size) == (name, batch_size)]
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} rows {name!r} at batch {batch_size}; expected one")
    return found[0]


def steps_to(row: Row, target: float, runs: str) -> float | None:
    """Mean over a row's seeds of the first evaluated step that reaches a target; None where a seed does not.

    Args:
      row: from `rows`.
      target: value of the row's metric.
      runs: path of the compressed JSON Lines file with the evaluations of the row's runs, relative to the root.
    """
    curves = [_curves(runs).get(_key(row.config, seed)) for seed in range(row.seeds)]
    reached = [
        min((step for step, value in curve.items() if row.metric.reaches(value, target)), default=None)
        for curve in (_values(curve, row.metric.name) for curve in curves if curve is not None)
    ]
    known = [step for step in reached if step is not None]
    return statistics.fmean(known) if known and len(known) == len(reached) else None


def _values(evaluations: list[dict[str, Any]], name: str) -> dict[int, float]:
    return {each["step"]: each[name] for each in evaluations if each.get(name) is not None}


@functools.cache
def _curves(path: str) -> dict[str, list[dict[str, Any]]]:
    """The evaluations of the runs of a compressed JSON Lines file, by config."""
    with gzip.open(ROOT / path, "rt", encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    return {_key(run["started"]["config"]): run["evaluations"] for run in runs}


def _key(config: Mapping[str, Any], seed: int | None = None) -> str:
    """Equal for the same config in a results file and in a file of runs, whichever version wrote them."""
    plain = json.loads(json.dumps(config))
    if seed is not None:
        plain["seed"] = seed
    plain.pop("experiment", None)
    return json.dumps(compared(completed(plain)), sort_keys=True)
