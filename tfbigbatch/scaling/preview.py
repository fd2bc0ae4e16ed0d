"""A recipe scaled to several batch sizes, as a table and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments
from tfbigbatch.utils.plot_text import plain

# Runs of fewer steps, or with a larger fraction of warm-up, rarely reach the small batch's quality.
FEW_STEPS = 200
LONG_WARMUP = 0.5


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
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe={recipe!r} is not a tfbigbatch.Recipe.")
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


def plot(path: str, rows: Sequence[dict[str, Any]], *, dataset_size: int, rule: str, title: str) -> None:
    """Plots the learning rate at each batch size against epochs, as a PNG file.

    Raises:
      ValueError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    import numpy as np

    figure, axes = pyplot.subplots(figsize=(8, 4.5), constrained_layout=True)
    colours = pyplot.get_cmap("viridis")(np.linspace(0.0, 0.9, len(rows)))
    for row, colour in zip(rows, colours):
        if row["warmup_steps"] > row["total_steps"]:
            continue
        schedule = row["recipe"].schedule(dataset_size, keras="tf_keras")
        steps = np.unique(np.linspace(0, row["total_steps"], 400).astype(int))
        epochs = steps * row["batch_size"] / dataset_size
        axes.plot(epochs, [float(schedule(step)) for step in steps], color=colour, label=f"{row['batch_size']:,}")
    axes.set_xlabel("epochs")
    axes.set_ylabel("learning rate")
    axes.set_title(plain(f"{title}, scaled by {rule}"))
    axes.grid(alpha=0.3)
    axes.legend(title="batch size", frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
