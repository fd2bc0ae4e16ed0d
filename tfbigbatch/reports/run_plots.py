"""The plot of every run's scalars against updates: a panel a scalar, a line a run."""

import math

from tfbigbatch.reports import figure_style

# Of the instruments' scalars, those that tell of a whole run; the layers' have a plot of their own.
_INSTRUMENTS = {
    "noise_scale/critical_batch_size": "critical batch (examples)",
    "sharpness/eigenvalue_1": "largest Hessian eigenvalue",
    "sharpness/trace": "trace of the Hessian",
    "sharpness/rise": "rise of the loss at the radius",
}
_UNITS = {
    "examples_per_second": "examples a second",
    "tokens_per_second": "tokens a second",
    "learning_rate": "learning rate",
}
# Only another way to count the updates.
_LEFT_OUT = ("epoch",)
# Where values are so many times apart, the axis is logarithmic.
_WIDE = 30.0


def panels_of(scalars):
    """What has a panel: list of (split, name, label of the y-axis).

    Args:
      scalars: list of `Scalars`, of all runs.
    """
    found = {(split, name): None for split in ("eval", "train") for each in scalars for name in each.names(split)}
    panels = []
    for split, name in found:
        if "/" in name:
            if name in _INSTRUMENTS:
                panels.append((split, name, _INSTRUMENTS[name]))
        elif name not in _LEFT_OUT:
            panels.append((split, name, _UNITS.get(name) or f"{name}, {_SPLITS.get(split, split)}"))
    return panels


def run_curves(path, rows, scalars, title):
    """A PNG of all scalars of all runs; those still running are drawn as far as they are.

    Args:
      path: of the PNG.
      rows: list of `runs.Row`.
      scalars: function of a `runs.Run` that gives its `Scalars`.
      title: of the figure.
    """
    found = [scalars(run) for row in rows for run in row.runs]
    panels, styles = panels_of(found), figure_style.styles([{"name": _label(row)} for row in rows], None)
    lasts = [each.last_step for each in found if each.last_step]
    lines = -(-max(1, len(panels)) // 2)
    # The names are below the panels, in one column where they are long.
    columns = 1 if max(map(len, map(_label, rows)), default=0) > 55 else 2
    size = (13, 3.6 * lines + 0.21 * -(-len(rows) // columns) + 0.4)
    with figure_style.figure(path, title, len(panels), panels=max(2, len(panels)), size=size) as (figure, axes):
        for panel, (split, name, label) in zip(axes.flat, panels):
            drawn = [
                (row, style, series)
                for row, style in ((row, _style(styles, row)) for row in rows)
                for series in (scalars(run).series(split, name) for run in row.runs)
                if series
            ]
            for _, style, series in drawn:
                panel.plot(list(series), list(series.values()), **style, markevery=_marks(len(series)))
            _axes(panel, [value for *_, series in drawn for value in series.values()], lasts, name, label)
        for panel in axes.flat[len(panels) :]:
            panel.set_axis_off()
        if panels:
            handles = [
                axes.flat[0].plot([], [], label=figure_style.plain(_label(row)), **_style(styles, row))[0]
                for row in rows
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


_SPLITS = {"train": "training", "eval": "evaluation"}


def _label(row):
    return f"{row.name} (batch {row.batch_size:,})"


def _style(styles, row):
    return {**styles[_label(row)], "markersize": 3.5, "linewidth": 1.2}


def _marks(count):
    """A marker at every so many points: some twelve on a line."""
    return max(1, count // 12)


def _axes(panel, values, lasts, name, label):
    finite = [value for value in values if math.isfinite(value)]
    if finite and min(finite) > 0.0 and max(finite) > _WIDE * min(finite):
        panel.set_yscale("log")
        label += " (log scale)"
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif "accuracy" in name:
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    if max(lasts, default=0) > 8 * min(lasts, default=0):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.set_xlabel("updates (log scale)")
    else:
        panel.set_xlabel("updates")
    panel.set_ylabel(label)
    panel.grid(alpha=0.3)
