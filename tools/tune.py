"""Tunes an experiment over a grid of learning rates and warm-up epochs, and shows every trial.

    python tools/tune.py --config=experiments/digits/lstm_lamb.py --model_dir=runs/tune \\
      --learning_rates=0.01,0.02,0.04 --warmup_epochs=1,5 --seeds=100,101,102

The rates and the warm-up are at the experiment's own schedule.batch_size. The same command resumes.
"""

import copy
import os

from absl import flags

from tfbigbatch import command, experiment, tasks, train
from tfbigbatch.training import report, series

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_string("model_dir", None, "Where the run directories and tuning.json go.", required=True)
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_list("learning_rates", None, "Values of schedule.learning_rate.", required=True)
flags.DEFINE_list("warmup_epochs", None, "Values of schedule.warmup_epochs; the experiment's own where left out.")
flags.DEFINE_list("seeds", ["0"], "Each trial is run at each of these seeds.")
flags.DEFINE_string("results", None, "Also write the results to this JSON file.")


def _main(unused):
    options = flags.FLAGS
    base = experiment.load(options.config)
    entries = []
    warmups = options.warmup_epochs or [str(base.schedule.warmup_epochs)]
    for rate, learning_rate in zip(
        options.learning_rates, command.numbers("learning_rates", options.learning_rates, float)
    ):
        for warmup, warmup_epochs in zip(warmups, command.numbers("warmup_epochs", warmups, float)):
            config = copy.deepcopy(base)
            config.schedule.learning_rate = learning_rate
            config.schedule.warmup_epochs = warmup_epochs
            entries.append((f"rate-{rate}-warmup-{warmup}", config))
    rows = series.run_series(
        entries,
        seeds=command.numbers("seeds", options.seeds, int),
        model_dir=options.model_dir,
        data_dir=options.data_dir,
        run=train.run,
    )
    summary = report.summarise(rows, tasks.get(base.task).target)
    ranked = sorted(summary, key=lambda row: row["mean"] if row["mean"] is not None else float("-inf"), reverse=True)
    print(f"\n{len(entries)} trials of {options.config}, best first\n")
    print("\n".join(report.table(ranked)))
    print()
    for path in (os.path.join(options.model_dir, "tuning.json"), *([options.results] if options.results else [])):
        report.write_results(path, rows, summary)
        print(f"results      {path}")


if __name__ == "__main__":
    command.execute(_main)
