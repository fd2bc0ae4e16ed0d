"""Measures an experiment for two minutes, and says which batch size is worth using and which recipe to begin with.

    tfbigbatch advise --config=digits/lstm_small_batch
    tfbigbatch advise --config=mnist/lstm_small_batch --data_dir=FOLDER --batch_size=1024 --output=advice

Trains a few hundred steps of the tuned recipe to measure the gradient noise scale, and times the training step at
several batch sizes. Prints a table of batch sizes, the batch worth using, the scaling rule, learning rate, warm-up and
optimizer to begin with, their reasons, and a command that trains so. --output keeps advice.json and advice.txt. The
experiment's recipe is the one that was tuned; --config.FIELD=VALUE overrides a field of it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import experiment_flags
from tfbigbatch.config.recipe import check_fields
from tfbigbatch.reports.report import make_folder
from tfbigbatch.utils import command
from tfbigbatch.utils.files import write_json, write_text


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment file, or the name of a shipped experiment.")
    experiment_flags.define_override()
    flags.DEFINE_string("data_dir", None, "Folder of the task's data.")
    flags.DEFINE_float("seconds", 120.0, "About how long the measurements may take.", lower_bound=5.0)
    flags.DEFINE_list("batch_size", [], "Also say which recipe to begin with at these batch sizes.")
    flags.DEFINE_string("output", None, "Folder for advice.json and advice.txt.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    batch_sizes = command.numbers("batch_size", options.batch_size, int)
    config = experiment_flags.load(options.config, options)
    check_fields(config)
    if options.output:
        # Before the measurements, which would be lost.
        path = os.path.join(options.output, "advice")
        make_folder(path)
    # Imported late: TensorFlow takes seconds.
    from tfbigbatch.tuning.experiment import advise_experiment

    fields = [f"--config.{each}" for each in experiment_flags.overrides(options)]
    given = {name: options[name].value for name in ("config", "data_dir")}
    named = [f"--{name}={value}" for name, value in given.items() if value is not None]
    advice = advise_experiment(
        config,
        data_dir=options.data_dir,
        seconds=options.seconds,
        name=options.config,
        flags=" ".join(shlex.quote(each) for each in [*named, *fields]),
        say=lambda line: print(line, flush=True),
    )
    print(f"\n{advice}")
    if options.output:
        write_json(f"{path}.json", advice.to_dict())
        write_text(f"{path}.txt", f"{advice}\n")
        print(f"\nwritten    {path}.json, {path}.txt")
    # A size out of range is refused, when all that was measured is kept.
    for size in batch_sizes:
        print(f"\nat batch {size:,}:\n{advice.at(size)}")
