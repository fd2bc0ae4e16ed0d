"""Explains where large-batch runs lose: on the unigram plateau, on too short a path, or by overfitting."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfbigbatch.errors import InputError
from tfbigbatch.reports import loss_report, losses
from tfbigbatch.reports.figure_style import check_matplotlib
from tfbigbatch.reports.losses import FREQUENCY, RunLoss
from tfbigbatch.reports.report import Report
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.directory import DONE, RunDirectory
from tfbigbatch.utils.files import write_text


def explain(report: Report | None, results: str, data_dir: str | None) -> None:
    """Measures the runs of a report that the file of results lacks, and writes its tables and figures.

    Args:
      report: of the runs; None for those in the file.
      results: path of the files, without their ends.
      data_dir: folder of the task's data; None for the one that each run remembers.

    Raises:
      ValueError: there is no run that has ended, or the file holds something else.
    """
    check_matplotlib()
    path = f"{results}.jsonl"
    runs = losses.read_lines(path, RunLoss.from_json, command="report --explain")
    title, baseline = os.path.basename(results), None
    if report is not None:
        title, baseline = report.title, report.baseline
        runs = _measured(report, runs, path, data_dir)
    if not runs:
        raise InputError(
            f"{path} holds no run yet, and no run that has ended was named. Give RUN_DIR... or --sweep=FILE with "
            "--model_dir=DIR."
        )
    _write(runs, results, title, _baseline(runs, baseline))


def _measured(report: Report, runs: list[RunLoss], path: str, data_dir: str | None) -> list[RunLoss]:
    """The runs of a file and those of the report that it lacks, in the report's order; the file has them too."""
    rows = losses.named(report.rows)
    for named in rows:
        for run in named.row.runs:
            if any((each.row, each.seed) == (named.name, run.seed) for each in runs):
                continue
            shown = f"{named.name}, seed {run.seed}"
            if run.state != DONE or not checkpoint_files.paths(RunDirectory(run.directory).checkpoints):
                print(f"{shown}: {run.state}, or without its checkpoint; left out", flush=True)
                continue
            # Imported late: TensorFlow takes seconds to import, and there may be nothing to measure.
            from tfbigbatch.reports import measured_run

            found = measured_run.measure(named, run, data_dir=data_dir)
            runs.append(found)
            losses.write_lines(path, map(RunLoss.to_json, runs))
            print(f"{shown}: training loss {found.train:.4f}, held-out loss {found.held_out:.4f}", flush=True)
    order = {named.name: place for place, named in enumerate(rows)}
    runs.sort(key=lambda run: (order.get(run.row, len(order)), run.seed))
    losses.write_lines(path, map(RunLoss.to_json, runs))
    return runs


def _baseline(runs: Sequence[RunLoss], name: str | None) -> str:
    """The row that others are compared with: of a sweep's baseline, or of the smallest batch with the least loss."""
    # Several rows of one name have their batch size in it.
    runs = [run for run in runs if name in (None, run.row) or run.row.startswith(f"{name} at ")] or runs
    smallest = min(run.batch_size for run in runs)
    smalls = [run for run in runs if run.batch_size == smallest]
    return min(smalls, key=lambda run: (run.bias != FREQUENCY, run.held_out)).row


def _write(runs: Sequence[RunLoss], results: str, title: str, baseline: str) -> None:
    parts = losses.parts_by_row(runs, baseline)
    tables = [loss_report.plateau_table(runs), loss_report.parts_table(runs, parts)]
    shown = ["\n".join(table.markdown()) for table in tables if table.rows]
    write_text(f"{results}.md", "\n\n".join([title, *shown]) + "\n")
    print("\n" + "\n\n".join(shown) + "\n")
    loss_report.curves(f"{results}_curves.png", runs, f"{title}: training loss against steps")
    loss_report.parts_figure(f"{results}_parts.png", parts, f"{title}: the parts of what is lost")
    for end in (".jsonl", ".md", "_curves.png", "_parts.png"):
        print(f"written  {results}{end}")
