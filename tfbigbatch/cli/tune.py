"""Carries an experiment's recipe to a larger batch: searches a few candidates, and trains the winner to its end.

    tfbigbatch tune --config=digits/lstm_small_batch --config.batch_size=512 --model_dir=runs/tune
    tfbigbatch tune --config=mine.py --config.batch_size=2048 --budget=4 --optimizers=tuned,muon,lamb

Trains candidates around the carried recipe, leaves the worse ones at rungs of their runs, and continues the others to
the end, for --budget runs in all. Candidates are run directories under --model_dir: TensorBoard shows them, and the
same command continues a search that was stopped. Prints the candidates, the winner's recipe, how sure the choice is
and a command that trains the winner again; writes tune.json, tune.txt and tune.png. Without --config.batch_size the
batch is the one that `tfbigbatch advise` finds worth using.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import shlex
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import experiment_flags
from tfbigbatch.config import override
from tfbigbatch.errors import InputError
from tfbigbatch.reports.report import make_folder
from tfbigbatch.tuning.candidates import SEARCHED, TUNED
from tfbigbatch.tuning.halving import SHARES, STAY
from tfbigbatch.utils import command
from tfbigbatch.utils.files import write_json, write_text


def define_flags() -> None:
    flags.DEFINE_string("config", None, "Experiment file, or the name of a shipped experiment: the tuned recipe.")
    experiment_flags.define_override()
    experiment_flags.define_quick()
    flags.DEFINE_string("model_dir", None, "Folder of the candidates' run directories. The same command continues.")
    flags.DEFINE_string("data_dir", None, "Folder of the task's data.")
    flags.DEFINE_float("budget", 3.0, "Cost of the search, in runs at the batch size: 1 or more.")
    flags.DEFINE_list("optimizers", [TUNED], "Optimizers to search: 'tuned' is the experiment's.")
    flags.DEFINE_list("search", list(SEARCHED), "What is searched beside them; the rest stays as it was carried.")
    flags.DEFINE_list("rungs", list(map(str, SHARES)), "Shares of a run at which the worse candidates are left.")
    flags.DEFINE_list("stay", list(map(str, STAY)), "Shares of all candidates that stay at each rung.")
    flags.DEFINE_string("last", "metric", "What decides at the end: 'metric', of the held-out data, or 'loss'.")
    flags.DEFINE_string(
        "executor", None, "A number of processes, 'here', or 'slurm'. Default: two, or one where there is a GPU."
    )


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    if options.model_dir is None:
        raise InputError("--model_dir is missing: give a folder for the candidates, such as --model_dir=runs/tune.")
    overrides = experiment_flags.overrides(options)
    sizes = [text for text in overrides if text.partition("=")[0].strip() == "batch_size"]
    # The file's own batch is what the recipe is carried from.
    options["config.FIELD"].value = given = [text for text in overrides if text not in sizes]
    config = experiment_flags.load(options.config, options)
    batch_size = None
    if sizes:
        wanted = copy.deepcopy(config)
        override(wanted, sizes)
        batch_size = wanted.batch_size
    make_folder(os.path.join(options.model_dir, "tune"))
    # Imported late: the command prints its help without TensorFlow.
    from tfbigbatch.tuning.tune import tune_experiment

    named = {name: options[name].value for name in ("config", "data_dir")}
    shown = [f"--{name}={value}" for name, value in named.items() if value is not None]
    shown += [f"--config.{text}" for text in given] + (["--quick"] if options.quick else [])
    tuned = tune_experiment(
        config,
        batch_size=batch_size,
        folder=options.model_dir,
        data_dir=options.data_dir,
        budget=options.budget,
        optimizers=options.optimizers,
        search=options.search,
        rungs=command.numbers("rungs", options.rungs, float),
        stay=command.numbers("stay", options.stay, float),
        last=options.last,
        executor=options.executor,
        use_fake_data=options.quick and options.data_dir is None,
        flags=" ".join(map(shlex.quote, shown)),
        say=lambda line: print(line, flush=True),
    )
    path = os.path.join(options.model_dir, "tune")
    print(f"\n{tuned}")
    write_json(f"{path}.json", tuned.to_dict())
    write_text(f"{path}.txt", f"{tuned}\n")
    plots = [tuned.plot(f"{path}.png")] if importlib.util.find_spec("matplotlib") else []
    print(f"\nwritten    {', '.join([f'{path}.json', f'{path}.txt', *plots])}")
    print(f"trained    {tuned.winner.directory}")
    print(f"look       tensorboard --host=localhost --logdir={options.model_dir}")
