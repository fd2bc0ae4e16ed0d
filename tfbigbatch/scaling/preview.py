"""A recipe at several batch sizes, and a batch ramp, before any training: tables and plots."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfbigbatch import schedules
from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.scaling.batch_ramp import BatchRamp, Stage
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments
from tfbigbatch.utils.plot_text import plain

# Runs of fewer steps, or with a larger fraction of warm-up, rarely reach the small batch's quality.
FEW_STEPS = 200
LONG_WARMUP = 0.5
_POINTS = 400


def preview(recipe: Recipe, batch_sizes: Iterable[int], *, rule: str, dataset_size: int) -> list[dict[str, Any]]:
    """The recipe scaled by `rule` to each batch size, in epochs and in steps.

    Args:
      recipe: the tuned recipe, with `epochs`.
      batch_sizes: in examples.
      rule: name of a scaling rule.
      dataset_size: examples in an epoch.

    Returns:
      List of {'batch_size', 'factor', 'learning_rate', 'warmup_epochs', 'warmup_steps',
      'total_steps', 'recipe', 'note'}; the note is a warning, or empty.

    Raises:
      ValueError: the rule is unknown, a size is not a whole number of 1 or more, or a batch is larger than the data
        set.
    """
    dataset_size = arguments.integer("dataset_size", dataset_size, least=1)
    rows: list[dict[str, Any]] = []
    for batch_size in arguments.integers("batch_sizes", batch_sizes, least=1):
        if batch_size > dataset_size:
            raise InputError(f"batch_size={batch_size} is larger than the data set of {dataset_size} examples.")
        scaled = recipe.at(batch_size, rule)
        warmup_steps, total_steps = scaled.warmup_steps(dataset_size), scaled.total_steps(dataset_size)
        rows.append(
            {
                "batch_size": batch_size,
                "factor": batch_size / recipe.batch_size,
                "learning_rate": scaled.learning_rate,
                "warmup_epochs": scaled.warmup_epochs,
                "warmup_steps": warmup_steps,
                "total_steps": total_steps,
                "recipe": scaled,
                "note": _note(warmup_steps, total_steps),
            }
        )
    return rows


def _note(warmup_steps: int, total_steps: int) -> str:
    if warmup_steps > total_steps:
        return "the warm-up is longer than the run: invalid"
    if warmup_steps > LONG_WARMUP * total_steps:
        return f"{warmup_steps / total_steps:.0%} of the run is warm-up"
    if total_steps < FEW_STEPS:
        return "few steps"
    return ""


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows as lines of an aligned table."""
    cells = [["batch", "factor", "learning rate", "warm-up", "steps", "total steps", ""]]
    for row in rows:
        cells.append(
            [
                f"{row['batch_size']:,}",
                f"x{row['factor']:.4g}",
                f"{row['learning_rate']:.4g}",
                f"{row['warmup_epochs']:.4g} epochs",
                f"{row['warmup_steps']:,}",
                f"{row['total_steps']:,}",
                row["note"],
            ]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return ["  ".join(cell.rjust(w) for cell, w in zip(line[:-1], widths)) + f"  {line[-1]}" for line in cells]


def ramp_lines(ramp: BatchRamp, stages: Sequence[Stage], *, dataset_size: int) -> list[str]:
    """The stages of a ramp, the steps that it saves, and the throughput that keeps the time of a step.

    Args:
      ramp: the ramp.
      stages: of it, in this run.
      dataset_size: examples in an epoch.
    """
    first, last = stages[0].batch_size, stages[-1].batch_size
    steps, small, large = stages[-1].last_step, _steps(ramp, first, dataset_size), _steps(ramp, last, dataset_size)
    return [
        *ramp.lines(dataset_size, stages),
        f"{small - steps:,} steps fewer than at batch {first:,} throughout, {steps - large:,} more than the "
        f"{large:,} at batch {last:,} throughout",
        f"examples per second for steps as long as those of the first batch: x{last / first:.4g} at batch {last:,}",
    ]


@contextlib.contextmanager
def _figure(path: str, title: str, *shape: int, **options: Any) -> Iterator[Any]:
    """A context with the axes of a figure that is written to `path` at its end.

    Raises:
      ValueError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    figure, axes = pyplot.subplots(*shape, constrained_layout=True, **options)
    yield axes
    figure.suptitle(plain(title))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def plot(path: str, rows: Sequence[dict[str, Any]], *, dataset_size: int, rule: str, title: str) -> None:
    """Plots the learning rate at each batch size against epochs, as a PNG file.

    Raises:
      ValueError: matplotlib is not installed.
    """
    with _figure(path, f"{title}, scaled by {rule}", figsize=(8, 4.5)) as axes:
        for row in rows:
            if row["warmup_steps"] > row["total_steps"]:
                continue
            schedule = row["recipe"].schedule(dataset_size, keras="tf_keras")
            steps = np.unique(np.linspace(0, row["total_steps"], _POINTS).astype(int))
            rates = [float(schedule(step)) for step in steps]
            axes.plot(steps * row["batch_size"] / dataset_size, rates, label=f"{row['batch_size']:,}")
        axes.set_xlabel("epochs")
        axes.set_ylabel("learning rate")
        axes.grid(alpha=0.3)
        axes.legend(title="batch size", frameon=False)


def plot_ramp(path: str, ramp: BatchRamp, stages: Sequence[Stage], *, dataset_size: int, title: str) -> None:
    """Plots batch size and learning rate of a ramp against epochs and against steps, as a PNG file.

    Raises:
      ValueError: matplotlib is not installed.
    """
    base = ramp.recipe.schedule(dataset_size, keras="tf_keras")
    rates = [ramp.schedule_of(stage, base, keras="tf_keras") for stage in stages]
    rate = schedules.in_phases(rates, [stage.steps for stage in stages], keras="tf_keras")
    first, last = stages[0].batch_size, stages[-1].last_step
    edges = [step for stage in stages for step in (stage.first_step, stage.last_step - 1)]
    steps = np.unique([*np.linspace(0, last - 1, _POINTS).astype(int), *edges])
    at = [next(stage for stage in stages if step < stage.last_step) for step in steps]
    epochs = [(s.first_example + (step - s.first_step) * s.batch_size) / dataset_size for step, s in zip(steps, at)]
    small_steps = np.linspace(0, _steps(ramp, first, dataset_size) - 1, _POINTS).astype(int)
    rows = (
        ("batch size", [stage.batch_size for stage in at], [first] * _POINTS),
        ("learning rate", [float(rate(step)) for step in steps], [float(base(step)) for step in small_steps]),
    )
    with _figure(path, title, 2, 2, figsize=(10, 6), sharex="col", sharey="row") as axes:
        for row, (label, values, without) in zip(axes, rows):
            for axis, x, small_x in zip(row, (epochs, steps), (small_steps * first / dataset_size, small_steps)):
                axis.plot(small_x, without, color="0.6", linestyle="--", label=f"batch {first:,} throughout")
                axis.plot(x, values, label="ramp")
                axis.grid(alpha=0.3)
            row[0].set_ylabel(label)
        axes[0][0].set_yscale("log", base=2)
        axes[0][0].yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes[0][0].legend(frameon=False)
        axes[1][0].set_xlabel("epochs")
        axes[1][1].set_xlabel("steps")


def _steps(ramp: BatchRamp, batch_size: int, dataset_size: int) -> int:
    """The steps of the run at one batch throughout."""
    assert ramp.recipe.epochs is not None
    return max(1, round(ramp.recipe.epochs * dataset_size / batch_size))
