"""Trains several experiments at several seeds, and writes a table, results and plots.

    tfbigbatch study --study=mnist/study --model_dir=runs/mnist_study --data_dir=FOLDER --processes=2
    tfbigbatch study few_steps --model_dir=runs/few_steps --data_dir=FOLDER --tasks=ptb,bert --only=Muon@640
    tfbigbatch study --configs=digits/lstm_legw,digits/lstm_lamb --seeds=0,1 --model_dir=runs/digits
    tfbigbatch study --config=digits/lstm_lamb --learning_rates=0.01,0.02 --warmup_epochs=1,5 --model_dir=runs/tune
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
--learning_rates and --warmup_epochs sweep these two fields of the schedule, both at its own schedule.batch_size.

The same command resumes, and runs what was added since. A study writes its tables after each run, to --results or
else MODEL_DIR/report; the others write MODEL_DIR/comparison or MODEL_DIR/tuning, and --results as well. TensorBoard
reads the run directories. Trials are in files of their own, PATH_trials.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import experiment_flags, study_files, sweeps
from tfbigbatch.cli.study_files import run_entries
from tfbigbatch.errors import InputError
from tfbigbatch.reports import collect
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies.entry import Entry

# The flags that belong to each source of runs.
_FLAGS_OF = {
    "benchmark": ("tasks", "only", "smoke", "budget", "optimizer", "override"),
    "study": ("only", "smoke", "budget", "optimizer", "override"),
    "configs": ("seeds", "override", "sweep", "quick"),
    "config": ("seeds", "override", "sweep", "quick", "learning_rates", "warmup_epochs"),
}


_SOURCES = ("study", "configs", "config")


def define_flags() -> None:
    flags.DEFINE_string("study", None, "Study file.")
    flags.DEFINE_list(
        "only", None, "With a study: run only these rows, METHOD, METHOD@BATCH or @BATCH; the table shows all."
    )
    flags.DEFINE_list("tasks", None, "With a benchmark: its tasks to run. Default: all.")
    flags.DEFINE_bool(
        "smoke", False, "With a study: each row for seconds on fake data, with a tiny model and one trial."
    )
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
    flags.DEFINE_multi_string("sweep", [], "--sweep.FIELD=VALUE,VALUE,...: values of a field, all combinations.")
    flags.DEFINE_list("learning_rates", None, "With --config: values of schedule.learning_rate.")
    flags.DEFINE_list(
        "warmup_epochs", None, "With --config: values of schedule.warmup_epochs. Default: that of the experiment."
    )
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
    flags.DEFINE_string("results", None, "Also write the results to this path; file extensions are added.")
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
            shown = {"override": "config.FIELD", "sweep": "sweep.FIELD"}.get(name, name)
            raise InputError(f"--{shown} does not go with {f'--{source}' if given else arguments[0]}; see --help.")
    if arguments:
        study_files.run_benchmark(options, arguments[0])
    else:
        {"study": study_files.run_study, "configs": _compare, "config": _tune}[source](options)


def _compare(options: flags.FlagValues) -> None:
    started = time.perf_counter()
    names = _names(options.configs)
    entries = [entry for name, path in zip(names, options.configs) for entry in sweeps.entries(path, name, options)]
    _check_tasks(entries)
    written = _paths(options, "comparison")
    run_entries(options, entries, options.configs)
    report = Report(collect.of_entries(entries, options.model_dir))
    print(f"\n{time.perf_counter() - started:.0f} s in all\n")
    print("\n".join(report.table().markdown()))
    for path in written:
        report.write_results(f"{path}.json")
        report.write_curves(f"{path}.png")
    print(f"\nplot         {written[-1]}.png")
    print(f"results      {written[-1]}.json")
    tensorboard = os.path.relpath(os.path.join(os.path.dirname(sys.executable), "tensorboard"))
    print(f"TensorBoard  {tensorboard} --host=localhost --logdir={options.model_dir}")
    print("             then open http://localhost:6006")


def _names(paths: Sequence[str]) -> list[str]:
    """A name for each experiment: that of its file, with the folder's where two files have the same."""
    short = [os.path.basename(path).replace(".py", "").replace(":", "_") for path in paths]
    names = [
        name if short.count(name) == 1 else f"{os.path.basename(os.path.dirname(path)) or 'here'}_{name}"
        for name, path in zip(short, paths)
    ]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--configs={','.join(paths)}: {name} is there twice; give each experiment once.")
    return names


def _check_tasks(entries: Sequence[Entry]) -> None:
    tasks = sorted({entry.config.task for entry in entries})
    if len(tasks) > 1:
        raise InputError(f"--configs: experiments of several tasks, {', '.join(tasks)}. A table compares one task.")


def _tune(options: flags.FlagValues) -> None:
    if not (options.learning_rates or options.warmup_epochs or options.sweep):
        raise InputError(
            "--config needs --learning_rates=0.01,0.02 or --sweep.FIELD=VALUE,VALUE: the values to try. To "
            f"train once: tfbigbatch train --config={options.config}."
        )
    entries = sweeps.entries(options.config, "", options)
    written = _paths(options, "tuning")
    run_entries(options, entries, [options.config])
    report = Report(collect.of_entries(entries, options.model_dir))
    print(f"\n{len(entries)} trials of {options.config}, best first\n")
    print("\n".join(report.ranked().table().markdown()))
    print()
    for path in written:
        report.write_results(f"{path}.json")
        print(f"results      {path}.json")


def _paths(options: flags.FlagValues, name: str) -> list[str]:
    """The paths, without extension, that the results are written to; their folders are made."""
    paths = [os.path.join(options.model_dir, name), *([options.results] if options.results else [])]
    for path in paths:
        make_folder(path)
    return paths
