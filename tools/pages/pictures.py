"""The pictures of docs/pictures/, drawn from the files of results/.

Each has a white background and a frame of its own, for pages that are light or dark.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfbigbatch.reports import plots
from tools.pages import architecture, stored_rows
from tools.pages.stored_rows import ROOT, Row
from tools.pages.tasks import ADAMW, KEPT, LAMB, LARS, LEGW, LINEAR, MUON, NESTEROV, SMALL, TASKS, Task

FOLDER = ROOT / "docs" / "pictures"
SOURCES = FOLDER / "sources.json"
TRUST_RATIOS = "results/trust_ratios_bert.json"
ARCHITECTURE = "docs/pictures/architecture.txt"
# Okabe and Ito's colours, and markers, for readers who see colours differently.
STYLES = {
    MUON: ("#882255", "*"),
    LAMB: ("#D55E00", "s"),
    LARS: ("#009E73", "D"),
    LEGW: ("#0072B2", "o"),
    ADAMW: ("#E69F00", "v"),
    NESTEROV: ("#56B4E9", "^"),
    KEPT: ("#777777", "X"),
    LINEAR: ("#BBBBBB", "P"),
}
_PARAMETERS = {"svg.hashsalt": "tfbigbatch", "svg.fonttype": "path", "font.size": 9, "axes.axisbelow": True}


def made() -> dict[str, tuple[Callable[[Path], None], Callable[[], Any]]]:
    """Of each picture, by its name: the function that writes it to a path, and the one that gives what it shows."""
    return {
        "architecture.svg": (_architecture, lambda: (ROOT / ARCHITECTURE).read_text(encoding="utf-8")),
        "batch.svg": (_batch, _batch_data),
        "steps.svg": (_steps, _steps_data),
        "trust_ratios.png": (_trust_ratios, lambda: (ROOT / TRUST_RATIOS).read_text(encoding="utf-8")),
    }


def digests() -> dict[str, str]:
    """A digest of what each picture shows, by its name; `SOURCES` has those of the pictures as they are."""
    return {name: hashlib.sha256(json.dumps(shown()).encode()).hexdigest()[:16] for name, (_, shown) in made().items()}


def write(folder: Path = FOLDER) -> None:
    """Draws all pictures, and notes what they show."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (draw, _) in made().items():
        draw(folder / name)
    (folder / SOURCES.name).write_text(json.dumps(digests(), indent=1) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _figure(path: Path, *shape: int, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """A context with a figure and its axes, saved to `path` at the end, the same bytes each time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(_PARAMETERS):
        figure, axes = pyplot.subplots(*shape, figsize=size, constrained_layout=True)
        figure.patch.set(facecolor="white", edgecolor="#cccccc", linewidth=1.5)
        try:
            yield figure, axes
            figure.savefig(path, metadata={"Date": None})
        finally:
            pyplot.close(figure)
    # Matplotlib ends some lines of an SVG with blanks.
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


def _architecture(path: Path) -> None:
    diagram = architecture.parse((ROOT / ARCHITECTURE).read_text(encoding="utf-8"))
    with _figure(path, size=(10, 1.25 * len(diagram.rows))) as (_, axes):
        architecture.draw(axes, diagram)


def _batch_data() -> list[Any]:
    return [
        (task.title, _plain(task.baseline), [(method, _plain(row)) for method, row, _ in task.points()])
        for task in TASKS
    ]


def _plain(row: Row) -> tuple[int, float | None, float | None]:
    return row.batch_size, row.mean, row.deviation


def _batch(path: Path) -> None:
    with _figure(path, 2, 4, size=(12, 6.6)) as (figure, axes):
        for panel, task in zip(axes.flat, TASKS):
            _batch_panel(panel, task)
        figure.suptitle("At the end of the same number of epochs. Arrows: outside of the panel", fontsize=10)
        _legend(figure, [*STYLES, SMALL])


def _batch_panel(panel: Any, task: Task) -> None:
    baseline, points = task.baseline, list(task.points())
    percent = 100 if baseline.metric.is_fraction else 1
    low, high = _limits(task, percent)
    assert baseline.mean is not None
    spread = baseline.deviation or 0.0
    panel.axhspan(percent * (baseline.mean - spread), percent * (baseline.mean + spread), color="#000000", alpha=0.1)
    panel.axhline(percent * baseline.mean, color="black", linestyle="--", linewidth=1)
    panel.plot([baseline.batch_size], [percent * baseline.mean], color="black", marker="o", markersize=5)
    for method, (colour, marker) in STYLES.items():
        rows = [row for found, row, _ in points if found == method and row.mean is not None]
        batches, means = [_beside(method, row.batch_size) for row in rows], [percent * row.mean for row in rows]
        bars = [percent * (row.deviation or 0.0) for row in rows]
        inside = [max(min(mean, high), low) for mean in means]
        panel.errorbar(
            batches,
            inside,
            [bar if mean == shown else 0.0 for bar, mean, shown in zip(bars, means, inside)],
            color=colour,
            marker=marker,
            markersize=8 if marker == "*" else 5,
            linewidth=1.2,
            capsize=2,
        )
        for batch, mean, shown in zip(batches, means, inside):
            if mean != shown:
                panel.plot(
                    [batch], [shown], marker="v" if mean < shown else "^", color=colour, markersize=9, clip_on=False
                )
    if task.label.endswith("(log scale)"):
        panel.set_yscale("log")
        panel.set_yticks([100, 200, 500], ["100", "200", "500"])
    panel.set_ylim(low, high)
    _batch_axis(panel, [baseline.batch_size, *(row.batch_size for _, row, _ in points)])
    panel.set_title(task.title, fontsize=10)
    panel.set_ylabel(task.label + (", %" if percent == 100 else ""))


def _limits(task: Task, percent: int) -> tuple[float, float]:
    """Of a panel: the baseline, and twice the distance to the median row below it."""
    means = sorted(percent * row.mean for _, row, _ in task.points() if row.mean is not None)
    baseline = percent * (task.baseline.mean or 0.0)
    if not task.baseline.metric.higher_is_better:
        return 90.0, 550.0
    low = max(means[0], baseline - 2.2 * (baseline - means[len(means) // 2]))
    high = max(means[-1], baseline)
    return low - 0.05 * (high - low), high + 0.1 * (high - low)


def _steps_data() -> list[Any]:
    return [(task.title, task.target, _steps_of(task)) for task in TASKS if task.target is not None]


def _steps_of(task: Task) -> dict[str, list[tuple[int, float]]]:
    """(batch size, steps to the target) of each method that reaches it; the small batch's first."""
    assert task.target is not None
    small = task.small_of_steps or task.small
    runs = next((source.runs for source in task.sources if source.path == small[0]), "")
    # A method is shown by the row with the best result at the end.
    rows = [(SMALL, stored_rows.find(*small), runs), *task.points(with_steps=True)]
    found: dict[str, list[tuple[int, float]]] = {}
    for method, row, runs in rows:
        steps = stored_rows.steps_to(row, task.target, runs) if runs else row.steps_to_target
        if steps is not None:
            found.setdefault(method, []).append((row.batch_size, steps))
    return found


def _steps(path: Path) -> None:
    tasks = [task for task in TASKS if task.target is not None]
    with _figure(path, 2, 3, size=(11, 6.6)) as (figure, axes):
        for panel, task in zip(axes.flat, tasks):
            found = _steps_of(task)
            batches = sorted({row.batch_size for _, row, _ in task.points()} | {task.baseline.batch_size})
            if SMALL in found:
                (batch, first), *_ = found.pop(SMALL)
                panel.plot(
                    batches, [first * batch / each for each in batches], color="gray", linestyle=":", linewidth=1.2
                )
                panel.plot([batch], [first], color="black", marker="o", markersize=6, linestyle="")
            for method, points in found.items():
                colour, marker = STYLES[method]
                size = 9 if marker == "*" else 5
                at, steps = zip(*((_beside(method, batch), value) for batch, value in points))
                panel.plot(at, steps, color=colour, marker=marker, markersize=size, linewidth=1.2)
            _batch_axis(panel, batches)
            panel.set_yscale("log", base=2)
            panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            metric = task.baseline.metric
            panel.set_title(f"{task.title}: to {metric.shown_target(task.target)}", fontsize=10)
            panel.set_ylabel("steps (log scale)")
        figure.suptitle(
            "Steps to a target. A method without a point does not reach it at that batch, or has no curve", fontsize=10
        )
        _legend(figure, [*STYLES, SMALL, "ideal: steps x batch kept"])


def _beside(method: str, batch_size: int) -> float:
    """Where a method's point is drawn: methods at one batch size stand beside each other."""
    return batch_size * 2 ** (0.09 * (list(STYLES).index(method) - (len(STYLES) - 1) / 2))


def _batch_axis(panel: Any, batches: list[int]) -> None:
    panel.set_xscale("log", base=2)
    ticks = sorted(set(batches))
    panel.set_xticks(ticks, [f"{batch:,}" for batch in ticks], rotation=30, ha="right", fontsize=8)
    panel.minorticks_off()
    panel.set_xlim(ticks[0] / 1.8, ticks[-1] * 1.8)
    panel.set_xlabel("batch size (log scale)")
    panel.grid(alpha=0.3)


def _legend(figure: Any, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    others = {
        SMALL: Line2D([], [], color="black", marker="o", linestyle="--"),
        "ideal: steps x batch kept": Line2D([], [], color="gray", linestyle=":"),
    }
    handles = [
        Line2D([], [], color=STYLES[name][0], marker=STYLES[name][1]) if name in STYLES else others[name]
        for name in names
    ]
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False, fontsize=9)


def _trust_ratios(path: Path) -> None:
    stored = json.loads((ROOT / TRUST_RATIOS).read_text(encoding="utf-8"))
    layers = {name: dict(zip(stored["steps"], ratios)) for name, ratios in stored["trust_ratios"].items()}
    plots.trust_map(str(path), layers, stored["title"])
