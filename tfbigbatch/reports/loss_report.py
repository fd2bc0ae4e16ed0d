"""Tables and figures of where the loss of a large batch is: plateaus, parts, checkpoints."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.losses import FREQUENCY, Parts, RunLoss, mean_losses
from tfbigbatch.reports.table import Table

_PARTS = {"plateau": "#D55E00", "path": "#0072B2", "overfitting": "#999933"}
_MEASURED = {
    "train": "training loss",
    "held_out": "held-out loss",
    "eigenvalue_1": "largest eigenvalue",
    "trace": "trace of the Hessian",
    "critical_batch_size": "noise scale (examples)",
}
"""The values of a checkpoint with their headings."""


def plateau_table(runs: Sequence[RunLoss]) -> Table:
    """The steps of each row above the loss of a constant prediction; the means over its seeds."""
    rows = []
    for name, seeds in _rows(runs).items():
        found = [run.curve.above(run.line) for run in seeds if run.line is not None]
        if not found:
            continue
        steps = statistics.fmean(above for above, _ in found)
        known = [step for _, step in found if step is not None]
        last = statistics.fmean(run.curve.smoothed().losses[-1] for run in seeds)
        fraction = steps / max(1, seeds[0].curve.steps[-1])
        rows.append(
            [
                name,
                f"{seeds[0].batch_size:,}",
                f"{seeds[0].steps:,}",
                f"{seeds[0].line:.3f}",
                f"{statistics.fmean(known):,.0f}" if len(known) == len(found) else "never",
                f"{steps:,.0f}",
                f"{fraction:.1%}",
                f"{steps * seeds[0].batch_size:,.0f}",
                f"{last:.3f}",
            ]
        )
    headings = ["run", "batch", "steps", "line, nats", "first below", "steps above", "fraction", "examples above"]
    return Table([*headings, "last training loss"], rows, frozenset({"run"}))


def parts_table(runs: Sequence[RunLoss], parts: Mapping[str, Parts]) -> Table:
    """Fit and held-out loss of each row, and the parts of what it loses against the small batch."""
    rows = []
    for name, seeds in _rows(runs).items():
        losses, found = mean_losses(runs, name), parts.get(name)
        cells = ["", "", "", ""]
        if found is not None:
            plateau = "" if found.plateau is None else f"{found.plateau:+.3f}"
            cells = [f"{found.total:+.3f}", plateau, f"{found.path:+.3f}", f"{found.overfitting:+.3f}"]
        measured = [f"{losses.train:.3f}", f"{losses.held_out:.3f}", f"{math.exp(min(losses.held_out, 50.0)):,.1f}"]
        rows.append([name, f"{seeds[0].batch_size:,}", f"{seeds[0].steps:,}", *measured, *cells])
    headings = ["run", "batch", "steps", "training loss", "held-out loss", "perplexity", "lost", *_PARTS]
    return Table(headings, rows, frozenset({"run"}))


def checkpoints_table(runs: Sequence[RunLoss]) -> Table:
    """The values of each row's checkpoints; the means over its seeds."""
    rows = []
    for name, seeds in _rows(runs).items():
        for step in sorted({each["step"] for run in seeds for each in run.checkpoints}):
            cells = [_shown(_mean(seeds, step, value)) for value in _MEASURED]
            rows.append([name, f"{seeds[0].batch_size:,}", f"{step:,}", *cells])
    return Table(["run", "batch", "step", *_MEASURED.values()], rows, frozenset({"run"}))


def curves(path: str, runs: Sequence[RunLoss], title: str) -> None:
    """A PNG of the training loss against steps, with the loss of a constant prediction as a line.

    A panel for each batch size and number of steps; a row and its twin have one colour, the one with the bias of
    frequencies is solid.
    """
    panels = sorted({(run.batch_size, run.steps) for run in runs})
    with figure_style.figure(path, title, len(runs), panels=len(panels)) as (_, axes):
        for panel, (batch, steps) in zip(axes, panels):
            _curves_panel(panel, [run for run in runs if (run.batch_size, run.steps) == (batch, steps)])
            panel.set_title(f"batch {batch:,}, {steps:,} steps", fontsize=10)


def _curves_panel(panel: Any, runs: Sequence[RunLoss]) -> None:
    # One name for a row and its twin.
    pairs = {run.row: min(run.row, run.twin or run.row) for run in runs}
    styles = figure_style.styles([{"name": pair} for pair in pairs.values()], None)
    smoothed = [run.curve.smoothed() for run in runs]
    for number, (run, curve) in enumerate(zip(runs, smoothed)):
        style = "--" if run.twin is not None and run.bias != FREQUENCY else "-"
        label = None if any(run.row == other.row for other in runs[:number]) else figure_style.plain(run.row)
        panel.plot(curve.steps, curve.losses, color=styles[pairs[run.row]]["color"], linestyle=style, label=label)
    lines = {run.line for run in runs if run.line is not None}
    for line in lines:
        panel.axhline(line, color="black", linewidth=1.0, linestyle=":", label=f"unigram entropy, {line:.2f}")
    finite = [loss for curve in smoothed for loss in curve.losses if math.isfinite(loss)]
    # The first steps of some runs are far above all that is to be seen.
    highest = min(max(finite, default=1.0), max((1.3 * line for line in lines), default=math.inf))
    panel.set_ylim(0.97 * min(finite, default=0.0), 1.02 * highest)
    panel.set_xlabel("steps")
    panel.set_ylabel("training loss, nats per token")
    panel.grid(alpha=0.3)
    panel.legend(frameon=False, fontsize=8, loc="upper right")


def parts_figure(path: str, parts: Mapping[str, Parts], title: str) -> None:
    """A PNG with a bar for each row: its parts, those that are gains to the left of 0, and their sum as a mark."""
    names = list(parts)
    with figure_style.figure(path, title, len(names), size=(9, 1.4 + 0.36 * len(names))) as (_, [axes]):
        for place, name in enumerate(names):
            ends = {True: 0.0, False: 0.0}
            for part, colour in _PARTS.items():
                value = getattr(parts[name], part) or 0.0
                axes.barh(place, value, left=ends[value < 0], color=colour, height=0.62, label=None if place else part)
                ends[value < 0] += value
            total = None if place else "lost in all"
            axes.plot([parts[name].total], [place], "D", color="black", markersize=5, label=total)
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(names)), [figure_style.plain(name) for name in names], fontsize=9)
        axes.invert_yaxis()
        axes.set_xlabel("held-out loss above the small batch's, nats per token")
        axes.grid(axis="x", alpha=0.3)
        figure_style.legend_beside(axes)


def _mean(seeds: Iterable[RunLoss], step: float, value: str) -> float:
    found = [each[value] for run in seeds for each in run.checkpoints if each["step"] == step and value in each]
    return statistics.fmean(found) if found else math.nan


def _shown(value: float) -> str:
    return f"{value:,.4g}" if math.isfinite(value) else ""


def _rows(runs: Sequence[RunLoss]) -> dict[str, list[RunLoss]]:
    found: dict[str, list[RunLoss]] = {}
    for run in runs:
        found.setdefault(run.row, []).append(run)
    return found
