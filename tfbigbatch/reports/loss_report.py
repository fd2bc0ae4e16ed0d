"""Tables and figures of where the loss of few steps is: the plateau of each run, and the parts of what it loses."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.loss_curve import plateau_of
from tfbigbatch.reports.loss_parts import FREQUENCY, Parts, RunLoss, losses_of
from tfbigbatch.reports.table import Table

_PARTS = {"plateau": "#D55E00", "path": "#0072B2", "overfitting": "#999933"}


def plateau_table(runs: Sequence[RunLoss]) -> Table:
    """The steps of each row above the loss of a constant prediction; the means over its seeds."""
    rows = []
    for name, of_row in _rows(runs).items():
        found = [plateau_of(run.curve, run.line) for run in of_row if run.line is not None]
        if not found:
            continue
        steps, first = statistics.fmean(each.steps for each in found), [each.first_below for each in found]
        known = [step for step in first if step is not None]
        last = statistics.fmean(run.curve.smoothed().losses[-1] for run in of_row)
        rows.append(
            [
                name,
                f"{of_row[0].batch_size:,}",
                f"{of_row[0].steps:,}",
                f"{found[0].line:.3f}",
                f"{statistics.fmean(known):,.0f}" if len(known) == len(found) else "never",
                f"{steps:,.0f}",
                f"{statistics.fmean(each.share for each in found):.1%}",
                f"{steps * of_row[0].batch_size:,.0f}",
                f"{last:.3f}",
            ]
        )
    headings = ["run", "batch", "steps", "line, nats", "first below", "steps above", "share", "examples above"]
    return Table([*headings, "last training loss"], rows, frozenset({"run"}))


def parts_table(runs: Sequence[RunLoss], parts: Mapping[str, Parts]) -> Table:
    """Fit and held-out loss of each row, and the parts of what it loses against the small batch."""
    rows = []
    for name, of_row in _rows(runs).items():
        losses, found = losses_of(runs, name), parts.get(name)
        cells = ["", "", "", ""]
        if found is not None:
            plateau = "" if found.plateau is None else f"{found.plateau:+.3f}"
            cells = [f"{found.total:+.3f}", plateau, f"{found.path:+.3f}", f"{found.overfitting:+.3f}"]
        measured = [f"{losses.train:.3f}", f"{losses.held_out:.3f}", f"{math.exp(min(losses.held_out, 50.0)):,.1f}"]
        rows.append([name, f"{of_row[0].batch_size:,}", f"{of_row[0].steps:,}", *measured, *cells])
    headings = ["run", "batch", "steps", "training loss", "held-out loss", "perplexity", "lost", *_PARTS]
    return Table(headings, rows, frozenset({"run"}))


def curves(path: str, runs: Sequence[RunLoss], title: str) -> None:
    """A PNG of the training loss against steps, with the loss of a constant prediction as a line.

    A panel for each batch size and number of steps; a row and its twin have one colour, the one with the bias of
    frequencies is solid.
    """
    panels = sorted({(run.batch_size, run.steps) for run in runs})
    size = (13, 4.6 * -(-len(panels) // 2))
    with figure_style.figure(path, title, len(runs), panels=len(panels), size=size) as (_, axes):
        for panel, (batch, steps) in zip([axes] if len(panels) == 1 else axes.flat, panels):
            _curves_panel(panel, [run for run in runs if (run.batch_size, run.steps) == (batch, steps)])
            panel.set_title(f"batch {batch:,}, {steps:,} steps", fontsize=10)


def _curves_panel(panel: Any, runs: Sequence[RunLoss]) -> None:
    styles = figure_style.styles([{"name": _pair(run)} for run in runs], None)
    for number, run in enumerate(runs):
        smoothed = run.curve.smoothed()
        twinned = run.twin is not None and run.bias != FREQUENCY
        label = None if any(run.row == other.row for other in runs[:number]) else run.row
        panel.plot(
            smoothed.steps,
            smoothed.losses,
            color=styles[_pair(run)]["color"],
            linewidth=1.5,
            linestyle="--" if twinned else "-",
            label=label and figure_style.plain(label),
        )
    lines = {run.line for run in runs if run.line is not None}
    for line in lines:
        panel.axhline(line, color="black", linewidth=1.0, linestyle=":", label=f"unigram entropy, {line:.2f}")
    finite = [loss for run in runs for loss in run.curve.smoothed().losses if math.isfinite(loss)]
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
    with figure_style.figure(path, title, len(names), size=(9, 1.4 + 0.36 * len(names))) as (_, axes):
        for place, name in enumerate(names):
            ends = {True: 0.0, False: 0.0}
            for part, colour in _PARTS.items():
                value = getattr(parts[name], part) or 0.0
                axes.barh(place, value, left=ends[value < 0], color=colour, height=0.62)
                ends[value < 0] += value
            axes.plot([parts[name].total], [place], marker="D", color="black", markersize=5, linestyle="none")
        _parts_axes(axes, names)


def _parts_axes(axes: Any, names: Sequence[str]) -> None:
    for part, colour in _PARTS.items():
        axes.bar(0, 0, color=colour, label=part)
    axes.plot([], [], marker="D", color="black", markersize=5, linestyle="none", label="lost in all")
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), [figure_style.plain(name) for name in names], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("held-out loss above the small batch's, nats per token")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _rows(runs: Sequence[RunLoss]) -> dict[str, list[RunLoss]]:
    found: dict[str, list[RunLoss]] = {}
    for run in runs:
        found.setdefault(run.row, []).append(run)
    return found


def _pair(run: RunLoss) -> str:
    """One name for a row and its twin."""
    return min(run.row, run.twin or run.row)
