"""Makes tables, results and plots again from run directories, and runs nothing.

    python tools/report.py --study=experiments/mnist/study.py --model_dir=runs/mnist_study --results=docs/results/mnist
    python tools/report.py runs/tune runs/legw

Works while runs are going: those that have not ended are shown as such. With folders, all run directories
in and under them are grouped by their configs apart from the seed, and named by the fields that differ.
"""

from absl import flags

from tfbigbatch import command, study
from tfbigbatch.errors import InputError
from tfbigbatch.training import runs
from tfbigbatch.training.report import Report, make_folder

flags.DEFINE_string("study", None, "A study file; its runs lie under --model_dir.")
flags.DEFINE_string("model_dir", None, "Where the study's run directories lie.")
flags.DEFINE_float("target", None, "With folders: value of the metric; the table shows how soon each reaches it.")
flags.DEFINE_string("results", None, "Path of what is written; endings are added. Without it, only the table is shown.")


def _main(folders):
    options = flags.FLAGS
    if bool(folders) == bool(options.study):
        raise InputError("expected either RUN_DIR... or --study=FILE with --model_dir=DIR; see --help.")
    if options.study:
        if options.model_dir is None or options.target is not None:
            raise InputError("--study needs --model_dir, where its runs lie; its target stands in the file.")
        report = Report.of_study(study.load(options.study), options.model_dir)
    else:
        if options.model_dir is not None:
            raise InputError("--model_dir goes with --study; name run directories without a flag.")
        report = Report(runs.found_in(folders), target=options.target)
    print("\n".join(report.table()))
    if options.results:
        make_folder(options.results)
        report.write_results(f"{options.results}.json")
        report.write_table(f"{options.results}.md")
        print()
        for file in (f"{options.results}.md", f"{options.results}.json", *report.write_plots(options.results)):
            print(f"written  {file}")


if __name__ == "__main__":
    command.execute(_main, takes_arguments=True)
