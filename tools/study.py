"""Runs a study: all rows of one table, at all their seeds, and writes the table, the results and the plots.

    python tools/study.py --study=experiments/mnist/study.py --model_dir=runs/mnist_study --data_dir=FOLDER \\
      --processes=2 --results=docs/results/mnist

The same command resumes where it was stopped, and runs rows that were added since. The table and the
results are renewed after each run. Without --results all goes to MODEL_DIR/report.
"""

import os

from absl import flags

from tfbigbatch import train
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies import series, study
from tfbigbatch.utils import command

flags.DEFINE_string("study", None, "The study file.", required=True)
flags.DEFINE_list("only", [], "Run these rows alone: METHOD or METHOD@BATCH. The table shows all.")
command.series_flags()


def _main(unused):
    options = flags.FLAGS
    table = study.load(options.study)
    entries = table.selected(options.only)
    path = options.results or os.path.join(options.model_dir, "report")

    def write():
        report = Report.of_study(table, options.model_dir)
        report.write_results(f"{path}.json")
        report.write_table(f"{path}.md")
        return report

    make_folder(path)
    try:
        series.run_series(
            entries,
            model_dir=options.model_dir,
            data_dir=options.data_dir,
            run=train.run,
            files=[options.study],
            processes=options.processes,
            ended_runs=options.ended_runs,
            ended=write,
        )
    finally:
        report = write()
        print("\n" + "\n".join(report.table()) + "\n")
        for file in (f"{path}.md", f"{path}.json", *report.write_plots(path)):
            print(f"written  {file}")


if __name__ == "__main__":
    command.execute(_main)
