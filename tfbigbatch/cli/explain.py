"""Explains where large-batch runs lose: on the unigram plateau, on too short a path, or by overfitting.

    tfbigbatch explain --results=runs/explained runs/small_batch runs/legw runs/legw_with_bias
    tfbigbatch explain --results=runs/explained                    # draws again what the file holds

For runs with a loss in nats: of classes, of language, masked-LM and translation models. The newest checkpoint of each
run is evaluated on training examples, and the held-out loss above the small batch's is split: what the output bias of
frequencies gives back, what is missing in the fit beyond that, and what is overfitted
(docs/why-large-batches-lose-accuracy.md has the formulas). For models of text the training loss by step is compared
with the loss of a prediction that is the same for all inputs: the entropy of the tokens' frequencies. Runs need a short
log_every to show the plateau.

Writes RESULTS.jsonl, a line per run; RESULTS.md, the tables; RESULTS_curves.png and RESULTS_parts.png. The same
command resumes: runs in RESULTS.jsonl are not measured again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli.report import define_runs, report_of
from tfbigbatch.errors import InputError
from tfbigbatch.reports import loss_report, losses
from tfbigbatch.reports.figure_style import check_matplotlib
from tfbigbatch.reports.losses import FREQUENCY, RunLoss
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.run_directory import DONE, RunDirectory
from tfbigbatch.utils.files import write_text


def define_flags() -> None:
    define_runs()
    flags.DEFINE_string("data_dir", None, "Folder of the task's data. Default: the one that each run remembers.")
    flags.DEFINE_string("results", None, "Path of the results; file extensions are added.", required=True)


def main(folders: Sequence[str]) -> None:
    options = flags.FLAGS
    if options.data_dir is not None and not os.path.exists(options.data_dir):
        raise InputError(f"--data_dir={options.data_dir}: no such folder. Give the folder of the runs' data.")
    make_folder(options.results)
    check_matplotlib()
    path = f"{options.results}.jsonl"
    runs = losses.read_lines(path, RunLoss.from_json, command="explain")
    title, baseline = os.path.basename(options.results), None
    if folders or options.study:
        report = report_of(folders)
        title, baseline = report.title, report.baseline
        runs = _measured(report, runs, path)
    if not runs:
        raise InputError(
            f"{path} holds no run yet, and no run that has ended was named. Give RUN_DIR... or --study=FILE with "
            "--model_dir=DIR."
        )
    _write(runs, title, _baseline(runs, baseline))


def _measured(report: Report, runs: list[RunLoss], path: str) -> list[RunLoss]:
    """The runs of a file and those of the report that it lacks, in the report's order; the file has them too."""
    options = flags.FLAGS
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

            found = measured_run.measure(named, run, data_dir=options.data_dir)
            runs.append(found)
            losses.write_lines(path, map(RunLoss.to_json, runs))
            print(f"{shown}: training loss {found.train:.4f}, held-out loss {found.held_out:.4f}", flush=True)
    order = {named.name: place for place, named in enumerate(rows)}
    runs.sort(key=lambda run: (order.get(run.row, len(order)), run.seed))
    losses.write_lines(path, map(RunLoss.to_json, runs))
    return runs


def _baseline(runs: Sequence[RunLoss], name: str | None) -> str:
    """The row that others are compared with: of a study's baseline, or of the smallest batch with the least loss."""
    # Several rows of one name have their batch size in it.
    runs = [run for run in runs if name in (None, run.row) or run.row.startswith(f"{name} at ")] or runs
    smallest = min(run.batch_size for run in runs)
    smalls = [run for run in runs if run.batch_size == smallest]
    return min(smalls, key=lambda run: (run.bias != FREQUENCY, run.held_out)).row


def _write(runs: Sequence[RunLoss], title: str, baseline: str) -> None:
    results = flags.FLAGS.results
    parts = losses.parts_by_row(runs, baseline)
    tables = [loss_report.plateau_table(runs), loss_report.parts_table(runs, parts)]
    shown = ["\n".join(table.markdown()) for table in tables if table.rows]
    write_text(f"{results}.md", "\n\n".join([title, *shown]) + "\n")
    print("\n" + "\n\n".join(shown) + "\n")
    loss_report.curves(f"{results}_curves.png", runs, f"{title}: training loss against steps")
    loss_report.parts_figure(f"{results}_parts.png", parts, f"{title}: the parts of what is lost")
    for end in (".jsonl", ".md", "_curves.png", "_parts.png"):
        print(f"written  {results}{end}")
