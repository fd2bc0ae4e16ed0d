"""Tunes an experiment over a grid of learning rates and warm-up epochs, and shows every trial.

    python tools/tune.py --config=experiments/digits/lstm_lamb.py --model_dir=runs/tune \\
      --learning_rates=0.01,0.02,0.04 --warmup_epochs=1,5 --seeds=100,101,102 --processes=2

The rates and the warm-up are at the experiment's own schedule.batch_size. The same command resumes.
"""

import copy
import os

from absl import flags

from tfbigbatch import experiment, train
from tfbigbatch.reports import collect
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies import series
from tfbigbatch.studies.entry import Entry
from tfbigbatch.utils import command

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_list("override", [], "Changes to it for all trials: FIELD=VALUE, as batch_size=1024.")
flags.DEFINE_list("learning_rates", None, "Values of schedule.learning_rate.", required=True)
flags.DEFINE_list("warmup_epochs", None, "Values of schedule.warmup_epochs; the experiment's own where left out.")
flags.DEFINE_list("seeds", ["0"], "Each trial is run at each of these seeds.")
command.series_flags()


def _main(unused):
    options = flags.FLAGS
    base = experiment.load(options.config)
    experiment.override(base, options.override)
    seeds = tuple(command.numbers("seeds", options.seeds, int))
    entries = []
    warmups = options.warmup_epochs or [str(base.schedule.warmup_epochs)]
    for rate, learning_rate in zip(
        options.learning_rates, command.numbers("learning_rates", options.learning_rates, float)
    ):
        for warmup, warmup_epochs in zip(warmups, command.numbers("warmup_epochs", warmups, float)):
            config = copy.deepcopy(base)
            config.schedule.learning_rate = learning_rate
            config.schedule.warmup_epochs = warmup_epochs
            name = f"rate-{rate}-warmup-{warmup}"
            entries.append(Entry(name, config, seeds, name))
    written = [os.path.join(options.model_dir, "tuning"), *([options.results] if options.results else [])]
    for path in written:
        make_folder(path)
    series.run_series(
        entries,
        model_dir=options.model_dir,
        data_dir=options.data_dir,
        run=train.run,
        files=[options.config],
        processes=options.processes,
        ended_runs=options.ended_runs,
    )
    report = Report(collect.of_entries(entries, options.model_dir))
    print(f"\n{len(entries)} trials of {options.config}, best first\n")
    print("\n".join(report.ranked().table()))
    print()
    for path in written:
        report.write_results(f"{path}.json")
        print(f"results      {path}.json")


if __name__ == "__main__":
    command.execute(_main)
