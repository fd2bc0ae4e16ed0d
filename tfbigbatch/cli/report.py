"""Writes a page, tables and plots from run directories; trains nothing.

    tfbigbatch report runs/legw runs/lamb              # writes runs/report.html, and its plots beside it
    tfbigbatch report runs/tune --results=tune/report
    tfbigbatch report --sweep=results/mnist_sweep.py --model_dir=runs/mnist_sweep --results=results/mnist
    tfbigbatch report --explain runs/small_batch runs/legw runs/legw_with_bias

Writes RESULTS.html, a page in one file; its plots, RESULTS_*.png; and the table, RESULTS.md and RESULTS.json. The page
shows the state of each run, the curves, the metric and the steps to --target against batch size, the trust ratios of
the layers over time recorded by `LayerStatistics`, and the config fields that differ.

It may be called while runs are in progress, and renews its files. With folders, the run directories in and under them
are grouped by their configs apart from the seed, and named by their folders.

--explain writes where large-batch runs lose instead: on the unigram plateau, on too short a path, or by overfitting. It
is for runs with a loss in nats: of classes, of language, masked-LM and translation models. The newest checkpoint of
each run is evaluated on training examples, and the held-out loss above the small batch's is split: what the output bias
of frequencies gives back, what is missing in the fit beyond that, and what is overfitted
(docs/why-large-batches-lose-accuracy.md has the formulas). For models of text the training loss by step is compared
with the loss of a prediction that is the same for all inputs: the entropy of the tokens' frequencies. Runs need a short
log_every to show the plateau. It writes RESULTS.jsonl, a line per run; RESULTS.md, the tables; RESULTS_curves.png and
RESULTS_parts.png. The same command resumes: runs in RESULTS.jsonl are not measured again, and without RUN_DIR those in
it are drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from absl import flags

from tfbigbatch import sweeps
from tfbigbatch.config import execute
from tfbigbatch.errors import InputError
from tfbigbatch.reports import loss_report, losses
from tfbigbatch.reports.figure_style import check_matplotlib
from tfbigbatch.reports.html import write_page
from tfbigbatch.reports.losses import FREQUENCY, RunLoss
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.directory import DONE, RunDirectory
from tfbigbatch.utils.files import write_text


def define_flags() -> None:
    flags.DEFINE_string("sweep", None, "Sweep file; its runs are in --model_dir.")
    flags.DEFINE_string("model_dir", None, "With --sweep: parent of its run directories.")
    flags.DEFINE_multi_string("register", [], "Experiment file that registers a task of your own; may be repeated.")
    flags.DEFINE_float("target", None, "With folders: value of the metric; the page shows the steps of each run to it.")
    flags.DEFINE_string(
        "results",
        None,
        "Path of the results; file extensions are added. Default: report, or explained, in the common parent of the "
        "folders or in --model_dir.",
    )
    flags.DEFINE_bool("explain", False, "Split what large-batch runs lose: plateau, path, overfitting.")
    flags.DEFINE_string(
        "data_dir", None, "With --explain: folder of the task's data. Default: the one that each run remembers."
    )


def main(folders: Sequence[str]) -> None:
    options = flags.FLAGS
    if options.explain:
        _explain(folders)
        return
    if options.data_dir is not None:
        raise InputError("--data_dir goes with --explain: a report reads no data.")
    report = _report_of(folders, options.target)
    path = _results(folders, "report")
    print("\n".join(report.table().markdown()) + "\n")
    make_folder(path)
    report.write_results(f"{path}.json")
    report.write_table(f"{path}.md")
    for file in (*write_page(report, path), f"{path}.md", f"{path}.json"):
        print(f"written  {file}")


def _explain(folders: Sequence[str]) -> None:
    """Explains the runs that are asked for, or those of --results alone."""
    options = flags.FLAGS
    if options.target is not None:
        raise InputError("--target does not go with --explain, which compares losses.")
    if options.data_dir is not None and not os.path.exists(options.data_dir):
        raise InputError(f"--data_dir={options.data_dir}: no such folder. Give the folder of the runs' data.")
    drawn_again = options.results and not folders and not options.sweep
    report = None if drawn_again else _report_of(folders)
    results = _results(folders, "explained")
    make_folder(results)
    check_matplotlib()
    path = f"{results}.jsonl"
    runs = losses.read_lines(path, RunLoss.from_json, command="report --explain")
    title, baseline = os.path.basename(results), None
    if report is not None:
        title, baseline = report.title, report.baseline
        runs = _measured(report, runs, path, options.data_dir)
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


def _results(folders: Sequence[str], name: str) -> str:
    """The path of --results, by default of this name beside the runs."""
    options = flags.FLAGS
    parent = options.model_dir or (os.path.commonpath([os.path.abspath(each) for each in folders]) if folders else ".")
    return options.results or os.path.join(parent, name)


def _report_of(folders: Sequence[str], target: float | None = None) -> Report:
    """The report of the run directories in and under folders, or of the runs of --sweep.

    Raises:
      ValueError: neither or both are given, or they hold no run.
    """
    options = flags.FLAGS
    for file in options.register:
        execute(file)
    if bool(folders) == bool(options.sweep) or bool(options.sweep) != bool(options.model_dir):
        raise InputError("expected either RUN_DIR... or --sweep=FILE with --model_dir=DIR; see --help.")
    if not options.sweep:
        return Report.of_folders(folders, target)
    if target is not None:
        raise InputError("--target does not go with --sweep: the target is set in the sweep file.")
    return Report.of_sweep(sweeps.load(options.sweep), options.model_dir)
