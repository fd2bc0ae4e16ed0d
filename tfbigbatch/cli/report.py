"""Writes a page, tables and plots from run directories; trains nothing.

    tfbigbatch report runs/legw runs/lamb              # writes runs/report.html, and its plots beside it
    tfbigbatch report runs/tune --results=tune/report
    tfbigbatch report --study=results/mnist_study.py --model_dir=runs/mnist_study --results=results/mnist

Writes RESULTS.html, a page in one file; its plots, RESULTS_*.png; and the table, RESULTS.md and RESULTS.json. The page
shows the state of each run, the curves, the metric and the steps to --target against batch size, the trust ratios of
the layers over time recorded by `LayerStatistics`, and the config fields that differ.

It may be called while runs are in progress, and renews its files. With folders, the run directories in and under them
are grouped by their configs apart from the seed, and named by their folders.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from absl import flags

from tfbigbatch import experiment, studies
from tfbigbatch.errors import InputError
from tfbigbatch.reports.html import write_page
from tfbigbatch.reports.report import Report, make_folder


def define_flags() -> None:
    define_runs()
    flags.DEFINE_float("target", None, "With folders: value of the metric; the page shows the steps of each run to it.")
    flags.DEFINE_string(
        "results",
        None,
        "Path of the results; file extensions are added. Default: report, in the common parent of the folders or in "
        "--model_dir.",
    )


def define_runs() -> None:
    """The flags of a command that takes RUN_DIR... or the runs of a study; see `report_of`."""
    flags.DEFINE_string("study", None, "Study file; its runs are in --model_dir.")
    flags.DEFINE_string("model_dir", None, "With --study: parent of its run directories.")
    flags.DEFINE_multi_string("register", [], "Experiment file that registers a task of your own; may be repeated.")


def main(folders: Sequence[str]) -> None:
    options = flags.FLAGS
    report = report_of(folders, options.target)
    parent = options.model_dir or os.path.commonpath([os.path.abspath(each) for each in folders])
    path = options.results or os.path.join(parent, "report")
    print("\n".join(report.table().markdown()) + "\n")
    make_folder(path)
    report.write_results(f"{path}.json")
    report.write_table(f"{path}.md")
    for file in (*write_page(report, path), f"{path}.md", f"{path}.json"):
        print(f"written  {file}")


def report_of(folders: Sequence[str], target: float | None = None) -> Report:
    """The report of the run directories in and under folders, or of the runs of --study.

    Raises:
      ValueError: neither or both are given, or they hold no run.
    """
    options = flags.FLAGS
    for file in options.register:
        experiment.execute(file)
    if bool(folders) == bool(options.study) or bool(options.study) != bool(options.model_dir):
        raise InputError("expected either RUN_DIR... or --study=FILE with --model_dir=DIR; see --help.")
    if not options.study:
        return Report.of_folders(folders, target)
    if target is not None:
        raise InputError("--target does not go with --study: the target is set in the study file.")
    return Report.of_study(studies.load(options.study), options.model_dir)
