"""Trains several experiments, each at several seeds, and shows them side by side.

    python tools/compare.py --model_dir=runs/digits

Prints a table and writes comparison.json and comparison.png into the model_dir, beside the run
directories that TensorBoard reads. The same command resumes where it was stopped.
"""

import os
import sys
import time

from absl import flags

from tfbigbatch import command, experiment, tasks, train
from tfbigbatch.training import report, series

_DIGITS = ("lstm_small_batch", "lstm_naive", "lstm_legw", "lstm_lamb")

flags.DEFINE_list(
    "configs", [f"experiments/digits/{name}.py" for name in _DIGITS], "Experiment files, in the order of the table."
)
flags.DEFINE_string("model_dir", None, "Where the run directories, the table and the plot go.", required=True)
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_list("seeds", ["0"], "Each experiment is run at each of these seeds.")
flags.DEFINE_string("results", None, "Also write the results to this path with .json and .png added.")


def _main(unused):
    options = flags.FLAGS
    started = time.perf_counter()
    entries = [(os.path.splitext(os.path.basename(path))[0], experiment.load(path)) for path in options.configs]
    rows = series.run_series(
        entries,
        seeds=command.numbers("seeds", options.seeds, int),
        model_dir=options.model_dir,
        data_dir=options.data_dir,
        run=train.run,
    )
    metric = tasks.get(entries[0][1].task).target
    summary = report.summarise(rows, metric)
    print(f"\n{time.perf_counter() - started:.0f} s in all\n")
    print("\n".join(report.table(summary)))
    written = [os.path.join(options.model_dir, "comparison"), *([options.results] if options.results else [])]
    for path in written:
        report.write_results(f"{path}.json", rows, summary)
        report.plot(f"{path}.png", rows, metric, f"{entries[0][1].task}: {metric} against steps")
    print(f"\nplot         {written[-1]}.png")
    print(f"results      {written[-1]}.json")
    tensorboard = os.path.relpath(os.path.join(os.path.dirname(sys.executable), "tensorboard"))
    print(f"TensorBoard  {tensorboard} --host=localhost --logdir={options.model_dir}")
    print("             then open http://localhost:6006")


if __name__ == "__main__":
    command.execute(_main)
