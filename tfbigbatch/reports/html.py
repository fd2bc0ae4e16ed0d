"""The HTML page of a report: one self-contained file, and the plots beside it."""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import importlib.resources
import os
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfbigbatch.config import overrides
from tfbigbatch.config.overrides import compared
from tfbigbatch.errors import missing_extra
from tfbigbatch.reports import collect, plots
from tfbigbatch.reports.table import Table
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.directory import DONE, PREEMPTED, RUNNING
from tfbigbatch.utils.files import write_text

if TYPE_CHECKING:
    from tfbigbatch.reports.collect import Row, Run
    from tfbigbatch.reports.report import Report

_CAPTIONS = {
    "batch": "Final metric against batch size. Bars are standard deviations over seeds.",
    "curves": "Metric against steps: the mean over seeds, with the range shaded.",
    "updates": "Steps to the target against batch size: along the dotted line twice the batch takes half of the steps.",
}


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: paragraphs, then tables, then pictures; without a heading it has no link.

    `pictures` are (path of a PNG, caption).
    """

    heading: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[tuple[str, str]] = ()

    def __bool__(self) -> bool:
        return bool(self.paragraphs or self.tables or self.pictures)


def render(title: str, sections: Sequence[Section]) -> str:
    """A whole page; every text is escaped.

    Raises:
      ValueError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise missing_extra("jinja2", "plot") from None
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    environment.tests["numeric"] = lambda cell: re.fullmatch(r"[-+]?[\d.,]+%?( ± [\d.,]+%?)?", cell) is not None
    environment.filters["base64"] = _base64
    template = importlib.resources.files("tfbigbatch.reports").joinpath("templates", "report.html.j2")
    return environment.from_string(template.read_text("utf-8")).render(title=title, sections=sections)


def write_page(report: Report, path: str) -> list[str]:
    """Writes PATH.html and, beside it, its plots.

    What no run has measured has neither plot nor section.

    Args:
      report: of the runs.
      path: of the files, without extension.

    Returns:
      The paths, the page's first.

    Raises:
      ValueError: matplotlib or jinja2 is not installed, or a file cannot be written.
    """
    written = report.write_plots(path)
    curves = [(written["curves"], _CAPTIONS["curves"])] if "curves" in written else []
    by_batch = [(written[name], _CAPTIONS[name]) for name in ("batch", "updates") if name in written]
    if plots.panels_of([run.scalars for row in report.rows for run in row.runs]):
        plots.run_curves(f"{path}_runs.png", report.rows, f"{report.title}: all runs against steps")
        curves.append((f"{path}_runs.png", "Every run, up to its last step."))
    trust = _write_trust_maps(report, path)
    versions = [", ".join(map(" ".join, sorted(each.items()))) for each in collect.versions(report.rows)]
    sections = [
        Section("", [_overview(report)], [report.table()]),
        Section("Runs", tables=[runs_table(report)]),
        Section("Curves", pictures=curves),
        Section("Batch size", pictures=by_batch),
        Section("Trust ratios", pictures=trust),
        _configs(report.rows),
        Section("Versions", paragraphs=versions),
    ]
    write_text(f"{path}.html", render(report.title, [section for section in sections if section]))
    return [f"{path}.html", *written.values(), *(file for file, _ in (*curves, *trust) if file not in written.values())]


def runs_table(report: Report) -> Table:
    """The progress of each run: its state, steps, latest evaluation, and that of the best checkpoint."""
    metric, lines = report.metric, []
    for row in report.rows:
        for run in row.runs:
            value, step = run.scalars.last("eval", metric.name)
            kept = checkpoint_files.steps(os.path.join(run.directory, "best"))
            best = run.curve(metric).get(kept[0]) if kept else None
            done, total = max(run.status.get("step", 0), run.scalars.last_step), run.status.get("total_steps")
            seconds = run.status.get("seconds")
            lines.append(
                [
                    row.name,
                    f"{row.batch_size:,}",
                    str(run.seed),
                    _state(run),
                    f"{done:,} of {total:,} ({done / total:.0%})" if total else f"{done:,}",
                    "none yet" if value is None else f"{metric.shown(value)} at {step:,}",
                    "" if best is None else f"{metric.shown(best)} at {kept[0]:,}",
                    "" if seconds is None or run.state == RUNNING else f"{seconds:,.1f}",
                ]
            )
    shown = [f"last {metric.title}", f"best {metric.title}, kept"]
    return Table(["run", "batch", "seed", "status", "steps", *shown, "seconds"], lines)


def _state(run: Run) -> str:
    if run.state == RUNNING:
        # A killed run differs from a slow one only by the time since it wrote.
        times = [0.0]
        for name in ("metrics.jsonl", "status.json"):
            with contextlib.suppress(OSError):  # Not there yet, or being replaced.
                times.append(os.path.getmtime(os.path.join(run.directory, name)))
        since = max(0.0, time.time() - max(times))
        return f"running, wrote {since / 60:,.0f} minutes ago" if since >= 120 else f"running, wrote {since:.0f} s ago"
    words = {DONE: "ended", PREEMPTED: "preempted; the same command resumes it"}.get(run.state, run.state)
    return f"{words}: {run.status['reason']}" if run.status.get("reason") else words


def _overview(report: Report) -> str:
    states = collections.Counter({"done": "ended"}.get(run.state, run.state) for row in report.rows for run in row.runs)
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    target = "" if report.target is None else f" Target: {report.metric.shown_target(report.target)}."
    written = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    total = sum(states.values())
    return (
        f"{total} run{'s' if total > 1 else ''}: {counts}.{target} As of {written}; the same command renews this page."
    )


def _write_trust_maps(report: Report, path: str) -> list[tuple[str, str]]:
    """PATH_trust_1.png, ...: of each row's first run with trust ratios. Returns (path, caption) of each."""
    found: list[tuple[str, str]] = []
    for row in report.rows:
        measured = [(run, run.scalars.below("train", "layers/trust_ratio/")) for run in row.runs]
        for run, layers in [each for each in measured if each[1]][:1]:
            name, file = f"{row.name} at {row.batch_size:,}, seed {run.seed}", f"{path}_trust_{len(found) + 1}.png"
            plots.trust_map(file, layers, f"Trust ratios: {name}")
            found.append((file, f"{name}: trust ratio of each variable."))
    return found


def _configs(rows: Sequence[Row]) -> Section:
    """The fields in which the rows differ, except the seed."""
    if len(rows) == 1:
        return Section("Configs")
    flat = [overrides.flat({**compared(row.config), "seed": None}) for row in rows]
    names = sorted({name for config in flat for name in config})
    fields = [name for name in names if len({str(config.get(name)) for config in flat}) > 1]
    lines = [[row.name, *(str(config.get(field, "")) for field in fields)] for row, config in zip(rows, flat)]
    words = "The fields that differ; all others are equal in all runs."
    return Section("Configs", [words], [Table(["run", *fields], lines)])


def _base64(path: str) -> str:
    """The content of a file as text for a data: address."""
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode("ascii")
