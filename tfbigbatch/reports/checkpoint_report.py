"""Examined checkpoints as a table and a figure: the mean over seeds of what `Examination.measure` gave."""

import math
import statistics

from tfbigbatch.reports import figure_style

# What a row of the table shows of a run's last checkpoint: heading to (what, its format).
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
    "gap": "accuracy on training examples less that on held-out ones",
    "train loss": "loss on training examples, without dropout",
    "eigenvalue_1": "largest eigenvalue of the Hessian",
    "critical_batch_size": "gradient noise scale (examples)",
    "distance": "distance from the first weights",
}
_ON_A_LOG_AXIS = ("train loss", "eigenvalue_1", "critical_batch_size")


def values(look):
    """One look's values under the names above; what a task does not measure is missing."""
    found = dict(look)
    held_out = next((name for name in ("validation", "test", "valid") if f"{name}_accuracy" in look), None)
    for mine, theirs in (("train", "train"), ("held-out", held_out)):
        for what, metric in (("loss", "cross_entropy"), ("accuracy", "accuracy")):
            if f"{theirs}_{metric}" in look:
                found[f"{mine} {what}"] = look[f"{theirs}_{metric}"]
    if held_out is not None:
        found["gap"] = found["train accuracy"] - found["held-out accuracy"]
    return found


def table(looks):
    """The lines of a Markdown table of each row's last checkpoint.

    Args:
      looks: list of dictionaries: `row`, `batch_size`, `seed`, and what `Examination.measure` gave.
    """
    yield "| " + " | ".join(["run", "batch", "seeds", "updates", *_COLUMNS]) + " |"
    yield "|---|---:|---:|---:|" + "---:|" * len(_COLUMNS)
    for (name, batch_size), by_step in _grouped(looks).items():
        last = by_step[max(by_step)]
        cells = [_spread([each[what] for each in last if what in each], form) for what, form in _COLUMNS.values()]
        yield "| " + " | ".join([name, f"{batch_size:,}", str(len(last)), f"{max(by_step):,}", *cells]) + " |"


def figure(path, looks, title, baseline=None):
    """A PNG of what changes along the runs: a panel a quantity, a line a row, from the first weights on.

    Args:
      path: of the PNG.
      looks: as for `table`.
      title: of the figure.
      baseline: name of the row that the others are held against.
    """
    grouped = _grouped(looks)
    styles = figure_style.styles([{"name": name} for name, _ in grouped], baseline)
    with figure_style.figure(path, title, len(grouped), panels=len(_PANELS), size=(13, 13)) as (whole, axes):
        for panel, (what, label) in zip(axes.flat, _PANELS.items()):
            for (name, _), by_step in grouped.items():
                points = {
                    # The first weights stand one update before the first: 0 has no place on a log axis.
                    max(step, 1): statistics.fmean(found)
                    for step, looked in sorted(by_step.items())
                    if (found := _finite([each[what] for each in looked if what in each]))
                }
                panel.plot(list(points), list(points.values()), **styles[name])
            panel.set_xscale("log")
            if what in _ON_A_LOG_AXIS:
                panel.set_yscale("log")
            elif what == "gap" or "accuracy" in what:
                panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
            panel.set_xlabel("updates (log scale; the first weights at 1)")
            panel.set_title(label, fontsize=10)
            panel.grid(alpha=0.3)
        handles = [
            axes.flat[0].plot([], [], label=figure_style.plain(f"{name} (batch {batch:,})"), **styles[name])[0]
            for name, batch in grouped
        ]
        whole.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _grouped(looks):
    """(row's name, batch size) to update to the values of its seeds."""
    found = {}
    for look in looks:
        by_step = found.setdefault((look["row"], look["batch_size"]), {})
        by_step.setdefault(look["step"], []).append(values(look))
    return found


def _spread(found, form):
    found = _finite(found)
    if not found:
        return ""
    mean = form.format(statistics.fmean(found))
    return mean if len(found) == 1 else f"{mean} ± {form.format(statistics.stdev(found))}"


def _finite(found):
    return [value for value in found if math.isfinite(value)]
