"""Measures an experiment for two minutes, and says which batch size is worth using and which recipe to begin with.

    tfbigbatch advise --config=digits/lstm_small_batch
    tfbigbatch advise --config=mnist/lstm_small_batch --data_dir=FOLDER --replicas=8 --output=advice

Trains a few hundred steps of the tuned recipe to measure the gradient noise scale, and times the training step at
several batch sizes. Prints a table of batch sizes, the batch worth using, the scaling rule, learning rate, warm-up and
optimizer to begin with, their reasons, and a command that trains so. --output keeps advice.json, advice.txt and
advice.png. The experiment's recipe is the one that was tuned; --config.FIELD=VALUE overrides a field of it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.cli import train
from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

parse = train.parse


def define_flags() -> None:
    from ml_collections import config_flags

    config_flags.DEFINE_config_file(
        "config", None, "Experiment file, or the name of a shipped experiment; --config.FIELD=VALUE overrides a field."
    )
    flags.DEFINE_string("data_dir", None, "Folder of the task's data.")
    flags.DEFINE_float("seconds", 120.0, "About how long the measurements may take.", lower_bound=5.0)
    flags.DEFINE_integer("replicas", 1, "Equal devices to plan for; one is measured.", lower_bound=1)
    flags.DEFINE_list("batch_size", [], "Also say which recipe to begin with at these batch sizes.")
    flags.DEFINE_string("output", None, "Folder for advice.json, advice.txt and advice.png.")
    flags.DEFINE_integer("seed", None, "Overrides --config.seed.")
    flags.DEFINE_enum("mixed_precision", None, experiment.PRECISIONS, "Overrides --config.mixed_precision.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    batch_sizes = command.numbers("batch_size", options.batch_size, int)
    if any(size < 1 for size in batch_sizes):
        raise InputError(f"--batch_size={','.join(options.batch_size)}: expected whole numbers of 1 or more.")
    config = train.config_of(options)
    # Imported late: TensorFlow takes seconds.
    from tfbigbatch.advice import advise_experiment, text
    from tfbigbatch.utils.files import write_json, write_text

    advice = advise_experiment(
        config,
        data_dir=options.data_dir,
        seconds=options.seconds,
        replicas=options.replicas,
        name=_given("--config")[0].partition("=")[2],
        flags=" ".join([*_given("--config"), *_given("--config.")]),
        say=lambda line: print(line, flush=True),
    )
    said = [str(advice)]
    for size in batch_sizes:
        said += [f"\nat batch {size:,}:", *text.suggestion_lines(advice.at(size))]
    print("\n" + "\n".join(said))
    if options.output:
        os.makedirs(options.output, exist_ok=True)
        path = os.path.join(options.output, "advice")
        write_json(f"{path}.json", advice.to_dict())
        write_text(f"{path}.txt", "\n".join(said) + "\n")
        advice.plot(f"{path}.png")
        print(f"\nwritten    {path}.json, {path}.txt, {path}.png")


def _given(flag: str) -> list[str]:
    """The arguments of the command line for --config, or for fields of it ('--config.'), as '--config=VALUE'."""
    found = []
    for position, argument in enumerate(sys.argv):
        name, equals, value = argument.partition("=")
        name = f"--{name.lstrip('-')}" if name.startswith("-") else ""
        if name == flag or (flag.endswith(".") and name.startswith(flag)):
            text = value if equals else (sys.argv[position + 1 : position + 2] or [""])[0]
            found.append(f"{name}={shlex.quote(text)}")
    return found
