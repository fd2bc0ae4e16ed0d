"""Reads the losses of runs: the training loss by step from their logs, and the fit of their last weights."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tfbigbatch import experiment
from tfbigbatch.reports import measurement_lines
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.loss_curve import LossCurve
from tfbigbatch.reports.loss_parts import FREQUENCY, RunLoss
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import DONE, RunDirectory
from tfbigbatch.utils.files import write_text

_BIAS = "output_bias"


def is_measurable(run: Run) -> bool:
    """Whether a run has ended and its directory has the weights; a run of `--ended_runs` has none."""
    return run.state == DONE and bool(checkpoint_files.paths(RunDirectory(run.directory).checkpoints))


def measure(
    named: NamedRow, run: Run, *, data_dir: str | None = None, fit_examples: int = 4096, use_fake_data: bool = False
) -> RunLoss:
    """The losses of a run; evaluates its newest checkpoint on training examples.

    Args:
      named: its row.
      run: the run.
      data_dir: folder of the data; None for the one that the run remembers.
      fit_examples: training examples that T is computed on.
      use_fake_data: whether the run was trained on fake data.

    Raises:
      ValueError: the data or the checkpoint cannot be read, or the task gives no loss in nats.
    """
    # Imported late: TensorFlow takes seconds to import, and there may be nothing to measure.
    from tfbigbatch.reports.training_fit import TrainedRun, cross_entropy_of

    trained = TrainedRun(run.directory, data_dir=data_dir, use_fake_data=use_fake_data)
    rows = read_rows(RunDirectory(run.directory).metrics)
    constant = trained.task.constant_loss()
    curve = LossCurve.of_rows(rows, constant.scalar, constant.tokens) if constant else LossCurve.of_rows(rows, "loss")
    return RunLoss(
        row=named.name,
        batch_size=named.row.batch_size,
        seed=run.seed,
        steps=run.status["step"],
        bias=run.config["model"].get(_BIAS),
        twin=named.twin,
        line=constant.entropy if constant else None,
        curve=curve,
        train=trained.training_loss(fit_examples),
        held_out=cross_entropy_of(run.status["metrics"]),
    )


class NamedRow(NamedTuple):
    """A row of a report.

    Attributes:
      row: as collected.
      name: unique; with the batch size where several rows have one name.
      twin: the name of a row that differs in its output bias only, or in its learning rate too where both were tuned;
        None for none.
    """

    row: Row
    name: str
    twin: str | None


def named(rows: Sequence[Row]) -> list[NamedRow]:
    """The rows with unique names and their twins."""
    counts = collections.Counter(row.name for row in rows)
    names = [row.name if counts[row.name] == 1 else f"{row.name} at {row.batch_size:,}" for row in rows]
    found = []
    for row, name in zip(rows, names):
        others = [
            (_rate(other) != _rate(row), _bias(other) != FREQUENCY, number)
            for number, other in enumerate(rows)
            if _key(other) == _key(row) and _bias(other) != _bias(row)
        ]
        found.append(NamedRow(row, name, names[min(others)[-1]] if others else None))
    return found


def _bias(row: Row) -> str | None:
    return row.config["model"].get(_BIAS)


def _rate(row: Row) -> float | None:
    return row.config.get("schedule", {}).get("learning_rate")


def _key(row: Row) -> str:
    """Equal for rows that differ in seed, output bias and learning rate only."""
    left_out = {
        "seed": None,
        "model": {**row.config["model"], _BIAS: None},
        "schedule": {**row.config.get("schedule", {}), "learning_rate": None},
    }
    return json.dumps({**experiment.compared(row.config), **left_out}, sort_keys=True)


def read(path: str) -> list[RunLoss]:
    """The runs in a file that `write` wrote; [] where there is none.

    Raises:
      ValueError: the file holds something else.
    """

    def of_json(content: Any) -> RunLoss:
        return measurement_lines.checked(RunLoss.from_json(content))

    return measurement_lines.read(path, of_json, what="losses of runs", command="explain")


def write(path: str, runs: Iterable[RunLoss]) -> None:
    """Writes a line for each run."""
    write_text(path, "".join(json.dumps(run.to_json()) + "\n" for run in runs))
