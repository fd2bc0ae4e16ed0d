"""Trains several experiments, each at several seeds, and shows them side by side.

    python tools/compare.py --model_dir=runs/digits

Prints a table and writes comparison.json and comparison.png into the model_dir, beside the run
directories that TensorBoard reads. The same command resumes where it was stopped.
"""

import os
import sys
import time

from absl import flags

from tfbigbatch import experiment, train
from tfbigbatch.reports import collect
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies import series
from tfbigbatch.studies.entry import Entry
from tfbigbatch.utils import command

_DIGITS = ("lstm_small_batch", "lstm_naive", "lstm_legw", "lstm_lamb")

flags.DEFINE_list(
    "configs", [f"experiments/digits/{name}.py" for name in _DIGITS], "Experiment files, in the order of the table."
)
flags.DEFINE_list("seeds", ["0"], "Each experiment is run at each of these seeds.")
command.series_flags()


def _main(unused):
    options = flags.FLAGS
    started = time.perf_counter()
    seeds = tuple(command.numbers("seeds", options.seeds, int))
    names = [os.path.splitext(os.path.basename(path))[0] for path in options.configs]
    entries = [Entry(name, experiment.load(path), seeds, name) for name, path in zip(names, options.configs)]
    written = [os.path.join(options.model_dir, "comparison"), *([options.results] if options.results else [])]
    for path in written:
        make_folder(path)
    series.run_series(
        entries,
        model_dir=options.model_dir,
        data_dir=options.data_dir,
        run=train.run,
        files=options.configs,
        processes=options.processes,
        ended_runs=options.ended_runs,
    )
    report = Report(collect.of_entries(entries, options.model_dir))
    print(f"\n{time.perf_counter() - started:.0f} s in all\n")
    print("\n".join(report.table()))
    for path in written:
        report.write_results(f"{path}.json")
        report.write_curves(f"{path}.png")
    print(f"\nplot         {written[-1]}.png")
    print(f"results      {written[-1]}.json")
    tensorboard = os.path.relpath(os.path.join(os.path.dirname(sys.executable), "tensorboard"))
    print(f"TensorBoard  {tensorboard} --host=localhost --logdir={options.model_dir}")
    print("             then open http://localhost:6006")


if __name__ == "__main__":
    command.execute(_main)
