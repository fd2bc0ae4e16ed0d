"""Makes a page, tables and plots from run directories, whenever one likes, and runs nothing.

    python tools/report.py runs/legw runs/lamb              # writes runs/report.html, and its plots beside it
    python tools/report.py runs/tune --results=tune/report
    python tools/report.py --study=experiments/mnist/study.py --model_dir=runs/mnist_study --results=docs/results/mnist

Writes RESULTS.html, one file that needs nothing else and holds all the rest; its plots, RESULTS_*.png; and the
table, RESULTS.md and RESULTS.json. The page has the state of each run, all curves, metric and updates to the target
against batch size with the ideal line and the critical batch that `GradientNoiseScale` measured, the trust ratios of
the layers over time as `LayerStatistics` saw them, and the fields in which the configs differ.

Works while runs are going: the same command renews all of it. With folders, all run directories in and under them
are grouped by their configs apart from the seed, and named by the fields that differ.
"""

import os

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.reports.page import write_page
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies import study
from tfbigbatch.utils import command

flags.DEFINE_string("study", None, "A study file; its runs lie under --model_dir.")
flags.DEFINE_string("model_dir", None, "Where the study's run directories lie.")
flags.DEFINE_float(
    "target",
    None,
    "With folders: value of the metric; the page shows how soon each run reaches it. Without it, where batch sizes "
    "differ, one that half of the finished runs reach.",
)
flags.DEFINE_string(
    "results",
    None,
    "Path of what is written; endings are added. Without it: report, in the folder given, or the one that holds all "
    "of them, or in --model_dir.",
)


def _main(folders):
    options = flags.FLAGS
    if bool(folders) == bool(options.study):
        raise InputError("expected either RUN_DIR... or --study=FILE with --model_dir=DIR; see --help.")
    if options.study:
        if options.model_dir is None or options.target is not None:
            raise InputError("--study needs --model_dir, where its runs lie; its target stands in the file.")
        report = Report.of_study(study.load(options.study), options.model_dir)
        place = options.model_dir
    else:
        if options.model_dir is not None:
            raise InputError("--model_dir goes with --study; name run directories without a flag.")
        report = Report.of_folders(folders, options.target)
        place = _holding_all(folders)
    print("\n".join(report.table()) + "\n")
    path = options.results or os.path.join(place, "report")
    make_folder(path)
    report.write_results(f"{path}.json")
    report.write_table(f"{path}.md")
    for file in (*write_page(report, path), f"{path}.md", f"{path}.json"):
        print(f"written  {file}")


def _holding_all(folders):
    """The innermost folder that holds all of them."""
    found = os.path.commonpath([os.path.abspath(folder) for folder in folders])
    if os.path.dirname(found) == found and not flags.FLAGS.results:
        raise InputError(f"{' and '.join(folders)} have no folder in common; say where to write: --results=PATH.")
    near = os.path.relpath(found)
    return found if near.startswith(os.pardir) else near


if __name__ == "__main__":
    command.execute(_main, takes_arguments=True)
