"""Table and figure of measured checkpoints: the means over seeds of `CheckpointAnalysis.measure`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.table import Table

# Columns of the table: heading to (value, format).
_COLUMNS = {
    "train loss": ("train loss", "{:.4f}"),
    "held-out loss": ("held-out loss", "{:.4f}"),
    "train accuracy": ("train accuracy", "{:.2%}"),
    "held-out accuracy": ("held-out accuracy", "{:.2%}"),
    "gap": ("gap", "{:.2%}"),
    "largest eigenvalue": ("eigenvalue_1", "{:.3g}"),
    "trace": ("trace", "{:.3g}"),
    "rise": ("rise", "{:.2g}"),
    "noise scale": ("critical_batch_size", "{:.3g}"),
    "distance": ("distance", "{:.3g}"),
    "weight norm": ("weight_norm", "{:.3g}"),
}
_PANELS = {
    "held-out accuracy": "accuracy on held-out examples",
    "gap": "accuracy on training minus held-out examples",
    "train loss": "loss on training examples, without dropout",
    "eigenvalue_1": "largest eigenvalue of the Hessian",
    "critical_batch_size": "gradient noise scale (examples)",
    "distance": "distance from the initial weights",
}
_ON_A_LOG_AXIS = ("train loss", "eigenvalue_1", "critical_batch_size")


def values(measurement: Mapping[str, Any]) -> dict[str, Any]:
    """A measurement under the names above; those that the task lacks are missing."""
    found = dict(measurement)
    held_out = next((name for name in ("validation", "test", "valid") if f"{name}_accuracy" in measurement), None)
    for shown, split in (("train", "train"), ("held-out", held_out)):
        for name, metric in (("loss", "cross_entropy"), ("accuracy", "accuracy")):
            if f"{split}_{metric}" in measurement:
                found[f"{shown} {name}"] = measurement[f"{split}_{metric}"]
    if held_out is not None and "train accuracy" in found:
        found["gap"] = found["train accuracy"] - found["held-out accuracy"]
    return found


def table(measurements: Iterable[Mapping[str, Any]]) -> Table:
    """The table of each row's last checkpoint.

    Args:
      measurements: `row`, `batch_size`, `seed`, and the values of `CheckpointAnalysis.measure`.
    """
    rows = []
    for (name, batch_size), by_step in _grouped(measurements).items():
        last = by_step[max(by_step)]
        cells = [_spread([each[what] for each in last if what in each], form) for what, form in _COLUMNS.values()]
        rows.append([name, f"{batch_size:,}", str(len(last)), f"{max(by_step):,}", *cells])
    return Table(["run", "batch", "seeds", "updates", *_COLUMNS], rows, frozenset({"run"}))


def figure(path: str, measurements: Iterable[Mapping[str, Any]], title: str, baseline: str | None = None) -> None:
    """A PNG of the measurements against steps: a panel for each quantity, a line for each row.

    Args:
      path: of the PNG.
      measurements: as for `table`.
      title: of the figure.
      baseline: name of the row that the others are compared with.
    """
    grouped = _grouped(measurements)
    styles = figure_style.styles([{"name": name} for name, _ in grouped], baseline)
    with figure_style.figure(path, title, len(grouped), panels=len(_PANELS), size=(13, 13)) as (whole, axes):
        for panel, (what, label) in zip(axes.flat, _PANELS.items()):
            for (name, _), by_step in grouped.items():
                points = {
                    # The initial weights are drawn at step 1, as a log axis has no 0.
                    max(step, 1): statistics.fmean(found)
                    for step, seeds in sorted(by_step.items())
                    if (found := _finite([each[what] for each in seeds if what in each]))
                }
                panel.plot(list(points), list(points.values()), **styles[name])
            drawn = [value for line in panel.lines for value in line.get_ydata()]
            if drawn:
                panel.set_xscale("log")
            # A task need not have all of the quantities, and the noise scale of a small set may be no number.
            if what in _ON_A_LOG_AXIS and max(drawn, default=0.0) > 0.0:
                panel.set_yscale("log")
            elif what == "gap" or "accuracy" in what:
                panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
            panel.set_xlabel("steps (log scale; the initial weights at 1)")
            panel.set_title(label, fontsize=10)
            panel.grid(alpha=0.3)
        handles = [
            axes.flat[0].plot([], [], label=figure_style.plain(f"{name} (batch {batch:,})"), **styles[name])[0]
            for name, batch in grouped
        ]
        whole.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _grouped(
    measurements: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, int], dict[int, list[dict[str, Any]]]]:
    """The values of all seeds by (row's name, batch size) and step."""
    found: dict[tuple[str, int], dict[int, list[dict[str, Any]]]] = {}
    for each in measurements:
        by_step = found.setdefault((each["row"], each["batch_size"]), {})
        by_step.setdefault(each["step"], []).append(values(each))
    return found


def _spread(found: Sequence[float], form: str) -> str:
    found = _finite(found)
    if not found:
        return ""
    mean = form.format(statistics.fmean(found))
    return mean if len(found) == 1 else f"{mean} ± {form.format(statistics.stdev(found))}"


def _finite(found: Iterable[float]) -> list[float]:
    return [value for value in found if math.isfinite(value)]
