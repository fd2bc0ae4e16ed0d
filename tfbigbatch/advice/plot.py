"""The plot of an advice: steps and time to the same loss against batch size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfbigbatch.reports import figure_style

if TYPE_CHECKING:
    from tfbigbatch.advice.advice import Advice

_STEPS, _TIME, _NOISE = "#0072B2", "#D55E00", "#009E73"


def draw(advice: Advice, path: str) -> None:
    """Writes the plot as a PNG file.

    Raises:
      ValueError: matplotlib is not installed, or the file cannot be written.
    """
    rows = advice.rows
    title = f"{advice.title}: to the loss of the run at batch {advice.tuned.batch_size:,}"
    with figure_style.figure(path, title, len(rows), panels=2, size=(13, 4.8)) as (_, axes):
        batches = [row.batch_size for row in rows]
        _line(axes[0], batches, [(row.steps, row.steps_low, row.steps_high) for row in rows], _STEPS, "steps")
        axes[0].plot(batches, [batches[0] / each for each in batches], color="gray", linestyle=":", label="1 / batch")
        _line(axes[1], batches, [(row.time, row.time_low, row.time_high) for row in rows], _TIME, "time")
        axes[0].plot(batches, [row.steps for row in rows], "o", color=_STEPS)
        measured = max(advice.times.turns) * advice.replicas
        for row in rows:
            face = _TIME if row.batch_size <= measured else "white"
            axes[1].plot(row.batch_size, row.time, "o", color=_TIME, markerfacecolor=face)
        for each, name in zip(axes, ("steps", "time")):
            _critical(each, advice, batches)
            each.axvline(advice.batch_size, color="black", linewidth=1.2, linestyle="--", label="worth using")
            figure_style.batch_axis(each, batches)
            each.set_yscale("log")
            each.set_ylabel(f"{name} relative to the tuned run")
            each.set_xlim(batches[0] / 1.3, batches[-1] * 1.3)
            each.legend(framealpha=0.8, edgecolor="none", fontsize=8)
        replicas = f"{advice.replicas} replica{'s' if advice.replicas > 1 else ''}"
        axes[1].set_title(f"on {replicas}; hollow: in micro-batches, not measured", fontsize=9)


def _line(axes: Any, batches: list[int], values: list[tuple[float, float, float]], colour: str, name: str) -> None:
    middle, low, high = zip(*values)
    axes.plot(batches, middle, color=colour, label=name)
    axes.fill_between(
        batches, low, high, color=colour, alpha=0.2, linewidth=0, label=f"{name}, over the range of the critical batch"
    )


def _critical(axes: Any, advice: Advice, batches: list[int]) -> None:
    """The critical batch as a band; its ends are cut to the axis."""
    critical, end = advice.critical_batch_size, batches[-1] * 1.3
    high = end if math.isinf(critical.high) else min(critical.high, end)
    if critical.low < end:
        axes.axvspan(max(critical.low, batches[0] / 1.3), high, color=_NOISE, alpha=0.10, linewidth=0)
    if critical.value < end:
        axes.axvline(critical.value, color=_NOISE, linewidth=1.2, label="critical batch of the run, with its range")
