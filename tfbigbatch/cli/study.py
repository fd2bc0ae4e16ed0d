"""Trains several experiments at several seeds, and writes a table, results and plots.

    tfbigbatch study --study=my_study.py --model_dir=runs/my_study --data_dir=FOLDER --processes=2
    tfbigbatch study few_steps --model_dir=runs/few_steps --data_dir=FOLDER --tasks=ptb,bert --only=Muon@640
    tfbigbatch study --configs=digits/lstm_legw,digits/lstm_lamb --seeds=0,1 --model_dir=runs/digits
    tfbigbatch study --config=digits/lstm_lamb --learning_rates=0.01,0.02 --model_dir=runs/tune
    tfbigbatch study --config=digits/lstm_lamb --sweep.optimizer.weight_decay=0.01,0.1 --sweep.batch_size=512,1024 \\
      --config.duration='5 epochs' --model_dir=runs/sweep

One of three sources gives the runs: --study, a study file; --configs, experiments to compare; or --config, an
experiment to run over a grid. Each is a path, or the name of a file that the package ships. `few_steps` is a benchmark:
a study for each of its tasks, with data in folders of --data_dir (experiments/few_steps/README.md).

Where a study's learning rates are chosen by trials, --budget is their number, and --optimizer=FILE:NAME adds the rows
of an optimizer of yours, which FILE registers.

--config.FIELD=VALUE sets a field of all experiments, as --config.mixed_precision=float32 of all rows of a study on a
processor without instructions for bfloat16. --sweep.FIELD=VALUE,VALUE,... tries several values, and more of these flags
all combinations; a value that has commas itself is parted by semicolons, as --sweep.model.blocks='1,1;2,2'.
--learning_rates sweeps schedule.learning_rate, at the schedule's own batch size.

The same command resumes, and runs what was added since. Tables are written after each run, to --results or else
MODEL_DIR/report. TensorBoard reads the run directories. Trials are in files of their own, PATH_trials.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import experiment_flags, study_files, sweeps
from tfbigbatch.errors import InputError
from tfbigbatch.studies import study
from tfbigbatch.studies.study import Study

# The flags that belong to each source of runs.
_FLAGS_OF = {
    "benchmark": ("tasks", "only", "budget", "optimizer"),
    "study": ("only", "budget", "optimizer"),
    "configs": ("seeds", "sweep.FIELD", "learning_rates"),
    "config": ("seeds", "sweep.FIELD", "learning_rates"),
}
_SOURCES = ("study", "configs", "config")


def define_flags() -> None:
    flags.DEFINE_string("study", None, "Study file.")
    flags.DEFINE_list(
        "only", None, "With a study: run only these rows, METHOD, METHOD@BATCH or @BATCH; the table shows all."
    )
    flags.DEFINE_list("tasks", None, "With a benchmark: its tasks to run. Default: all.")
    flags.DEFINE_integer(
        "budget", None, "With a study: trials of the learning rate of each row that has trials.", lower_bound=1
    )
    flags.DEFINE_string(
        "optimizer", None, "With a study: FILE:NAME, an optimizer that FILE registers. Only its rows are run."
    )
    flags.DEFINE_list("configs", None, "Experiments to compare, in the order of the table.")
    flags.DEFINE_string("config", None, "Experiment to run over a grid.")
    experiment_flags.define_override()
    experiment_flags.define_quick()
    flags.DEFINE_multi_string("sweep.FIELD", [], "Values of a field, all combinations: --sweep.batch_size=512,1024.")
    flags.DEFINE_list("learning_rates", None, "Values of schedule.learning_rate, as --sweep.schedule.learning_rate.")
    flags.DEFINE_list("seeds", None, "Run each experiment or trial at each of these seeds. Default: 0.")
    flags.DEFINE_string("model_dir", None, "Parent of the run directories and of the results.", required=True)
    flags.DEFINE_string("data_dir", None, "Folder of the task's data.")
    flags.DEFINE_integer(
        "processes",
        1,
        "Number of runs at once. With more than 1, each has its own process and an equal number of cores, and its "
        "output goes to a .log file beside its run directory. So it is with 1 where the runs differ in "
        "simulated_replicas.",
        lower_bound=1,
    )
    flags.DEFINE_string("results", None, "Path of the results, without an extension. Default: MODEL_DIR/report.")
    flags.DEFINE_string(
        "results_cache",
        None,
        "File that records finished runs. Where their run directories are missing, as on another machine, the same "
        "command takes their results from this file and does not repeat them.",
    )


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    given = [name for name in _SOURCES if options[name].value]
    if len(arguments) + len(given) != 1:
        raise InputError(
            "expected one of --study=FILE, --configs=FILE,..., --config=FILE and a benchmark, few_steps; see --help."
        )
    source = given[0] if given else "benchmark"
    for name in sorted({name for names in _FLAGS_OF.values() for name in names} - set(_FLAGS_OF[source])):
        if options[name].value:
            raise InputError(f"--{name} does not go with {f'--{source}' if given else arguments[0]}; see --help.")
    if arguments:
        study_files.run_benchmark(options, arguments[0])
    elif options.study:
        study_files.run(options, study_files.changed(options, study.load(options.study)), [options.study])
    else:
        paths = options.configs or [options.config]
        study_files.run(options, _grid(options, paths), paths)


def _grid(options: flags.FlagValues, paths: Sequence[str]) -> Study:
    """The study of some experiments, each over the grid of the flags."""
    if options.config and not (options.learning_rates or options["sweep.FIELD"].value):
        raise InputError(
            "--config needs --learning_rates=0.01,0.02 or --sweep.FIELD=VALUE,VALUE: the values to try. To "
            f"train once: tfbigbatch train --config={options.config}."
        )
    names = [os.path.basename(path).replace(".py", "").replace(":", "_") for path in paths]
    if len(set(names)) < len(names):
        names = list(paths)
    table = study.new(", ".join(paths))
    for name, path in zip(names, paths):
        for point, config in sweeps.configs(path, options):
            row = point if options.config else f"{name} {point}".strip()
            table.add(row, config, seeds=sweeps.seeds(options))
    return table
