"""Tables and figures of where the loss of a large batch is: plateaus and parts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.losses import Parts, RunLoss, mean_losses
from tfbigbatch.reports.table import Table

_PARTS = {"plateau": "#D55E00", "path": "#0072B2", "overfitting": "#999933"}


def plateau_table(runs: Sequence[RunLoss]) -> Table:
    """The steps of each row above the loss of a constant prediction; the means over its seeds."""
    rows = []
    for first, seeds in _rows(runs):
        found = [run.curve.above(run.line) for run in seeds if run.line is not None]
        if not found:
            continue
        steps = statistics.fmean(above for above, _ in found)
        known = [step for _, step in found if step is not None]
        last = statistics.fmean(run.curve.smoothed().losses[-1] for run in seeds)
        rows.append(
            [
                *first,
                f"{seeds[0].line:.3f}",
                f"{statistics.fmean(known):,.0f}" if len(known) == len(found) else "never",
                f"{steps:,.0f}",
                f"{steps / max(1, seeds[0].curve.steps[-1]):.1%}",
                f"{steps * seeds[0].batch_size:,.0f}",
                f"{last:.3f}",
            ]
        )
    headings = ["run", "batch", "steps", "line, nats", "first below", "steps above", "fraction", "examples above"]
    return Table([*headings, "last training loss"], rows, frozenset({"run"}))


def parts_table(runs: Sequence[RunLoss], parts: Mapping[str, Parts]) -> Table:
    """Fit and held-out loss of each row, and the parts of what it loses against the small batch."""
    rows = []
    for first, seeds in _rows(runs):
        train, held_out = mean_losses(runs, seeds[0].row)
        found = parts.get(seeds[0].row)
        values = [] if found is None else [found.total, found.plateau, found.path, found.overfitting]
        cells = ["" if value is None else f"{value:+.3f}" for value in values] or [""] * 4
        rows.append([*first, f"{train:.3f}", f"{held_out:.3f}", f"{math.exp(min(held_out, 50.0)):,.1f}", *cells])
    headings = ["run", "batch", "steps", "training loss", "held-out loss", "perplexity", "lost", *_PARTS]
    return Table(headings, rows, frozenset({"run"}))


def curves(path: str, runs: Sequence[RunLoss], title: str) -> None:
    """A PNG of the training loss against steps, with the loss of a constant prediction as a line.

    A panel for each batch size and number of steps.
    """
    panels = sorted({(run.batch_size, run.steps) for run in runs})
    styles = figure_style.styles([run.row for run in runs])
    with figure_style.figure(path, title, len(runs), panels=len(panels)) as (_, axes):
        for panel, (batch, steps) in zip(axes, panels):
            own = [run for run in runs if (run.batch_size, run.steps) == (batch, steps)]
            _curves_panel(panel, own, styles)
            panel.set_title(f"batch {batch:,}, {steps:,} steps", fontsize=10)


def _curves_panel(panel: Any, runs: Sequence[RunLoss], styles: Mapping[str | None, Mapping[str, Any]]) -> None:
    finite: list[float] = []
    for number, run in enumerate(runs):
        curve = run.curve.smoothed()
        label = None if any(run.row == other.row for other in runs[:number]) else figure_style.plain(run.row)
        panel.plot(curve.steps, curve.losses, label=label, **{**styles[run.row], "marker": ""})
        finite += [loss for loss in curve.losses if math.isfinite(loss)]
    lines = {run.line for run in runs if run.line is not None}
    for line in lines:
        panel.axhline(line, color="black", linewidth=1.0, linestyle=":", label=f"unigram entropy, {line:.2f}")
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


def _rows(runs: Sequence[RunLoss]) -> list[tuple[list[str], list[RunLoss]]]:
    """(first cells, runs of all seeds) of each row."""
    found: dict[str, list[RunLoss]] = {}
    for run in runs:
        found.setdefault(run.row, []).append(run)
    return [([name, f"{seeds[0].batch_size:,}", f"{seeds[0].steps:,}"], seeds) for name, seeds in found.items()]
