"""Trains several experiments at several seeds, and writes a table, results and plots.

    tfbigbatch sweep --sweep=my_sweep.py --model_dir=runs/my_sweep --data_dir=FOLDER --processes=2
    tfbigbatch sweep --sweep=few_steps/sweep:ptb --model_dir=runs/ptb --data_dir=FOLDER --only=Muon@640
    tfbigbatch sweep --config=digits/lstm_legw,digits/lstm_lamb --seeds=0,1 --model_dir=runs/digits
    tfbigbatch sweep --config=digits/lstm_lamb --grid.optimizer.weight_decay=0.01,0.1 --grid.batch_size=512,1024 \\
      --config.duration='5 epochs' --model_dir=runs/sweep

Either a sweep file gives the runs, --sweep, or experiments do, --config, each at all points of --grid. Each is a path,
or the name of a file that the package ships. `few_steps/sweep` is a benchmark, with a sweep for each of its tasks
(experiments/few_steps/README.md).

--config.FIELD=VALUE sets a field of all experiments, as --config.mixed_precision=float32 of all rows of a sweep on a
processor without instructions for bfloat16. --grid.FIELD=VALUE,VALUE,... tries several values, and more of these flags
all combinations; a value that has commas itself is parted by semicolons, as --grid.model.blocks='1,1;2,2'.

The same command resumes, and runs what was added since. Tables are written after each run, to --results or else
MODEL_DIR/report. TensorBoard reads the run directories. Trials are in files of their own, PATH_trials.
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
from collections.abc import Sequence

from absl import flags

from tfbigbatch import train
from tfbigbatch.cli import experiment_flags
from tfbigbatch.config import override
from tfbigbatch.config.files import find
from tfbigbatch.errors import InputError
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.sweeps import series
from tfbigbatch.sweeps.results_cache import ResultsCache
from tfbigbatch.sweeps.sweep import Sweep, load
from tfbigbatch.training.options import RunOptions, check
from tfbigbatch.utils import command


def define_flags() -> None:
    flags.DEFINE_string("sweep", None, "Sweep file.")
    flags.DEFINE_list(
        "only", None, "With a sweep: run only these rows, METHOD, METHOD@BATCH or @BATCH; the table shows all."
    )
    flags.DEFINE_list("config", None, "Experiments to compare, in the order of the table.")
    experiment_flags.define_override()
    experiment_flags.define_quick()
    flags.DEFINE_multi_string(
        "grid.FIELD", [], "With --config: values of a field, all combinations: --grid.batch_size=512,1024."
    )
    flags.DEFINE_list("seeds", None, "With --config: run each experiment at each of these seeds. Default: 0.")
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
        "File that records finished runs; gzip compresses one that ends in .gz. Where their run directories are "
        "missing, as on another machine, the same command takes their results from this file and does not repeat them.",
    )


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    if bool(options.sweep) == bool(options.config):
        raise InputError("expected either --sweep=FILE or --config=FILE,...; see --help.")
    for name in ("seeds", "grid.FIELD") if options.sweep else ("only",):
        if options[name].value:
            raise InputError(f"--{name} does not go with --{'sweep' if options.sweep else 'config'}; see --help.")
    if options.config:
        run(options, grid(options), options.config)
        return
    table = load(options.sweep)
    if fields := experiment_flags.overrides(options):
        table = table.with_fields(fields)
    run(options, table.made_quick(options.data_dir) if options.quick else table, [options.sweep])


def grid(options: flags.FlagValues) -> Sweep:
    """The sweep of the experiments of --config, each at all combinations of the values of --grid."""
    swept: dict[str, list[str]] = {}
    for text in options["grid.FIELD"].value:
        field, _, values = text.partition("=")
        texts = [value.strip() for value in values.split(";" if ";" in values else ",")]
        if "" in texts or field in swept or field == "seed":
            raise InputError(
                f"--grid.{text}: expected --grid.FIELD=VALUE,VALUE,..., as --grid.optimizer.weight_decay=0.01,0.1, "
                "once for each field; for seeds --seeds=0,1."
            )
        swept[field] = texts
    paths = options.config
    names = [os.path.basename(path).replace(".py", "").replace(":", "_") for path in paths]
    if len(set(names)) < len(names):
        names = list(paths)
    seeds = command.numbers("seeds", options.seeds or ["0"], int)
    table = Sweep(", ".join(paths))
    for name, path in zip(names, paths):
        base = experiment_flags.load(path, options)
        for values in itertools.product(*swept.values()):
            config, point = copy.deepcopy(base), [f"{field}={value}" for field, value in zip(swept, values)]
            try:
                said = override(config, point)
            except InputError as error:
                raise InputError(f"--grid.{' --grid.'.join(point)}: {error}") from None
            for line in said:
                print(f"{' '.join(point)}: {line}", flush=True)
            table.add(" ".join(point if point and len(paths) == 1 else [name, *point]), config, seeds=seeds)
    return table


def run(options: flags.FlagValues, table: Sweep, files: Sequence[str]) -> None:
    """Runs the rows of --only of a sweep, which is from `files`; renews its table after each run, plots at the end."""
    model_dir, data_dir = options.model_dir, options.data_dir
    path = options.results or os.path.join(model_dir, "report")
    rows = table.selected(options.only or [])

    def write() -> list[tuple[str, Report]]:
        parts = {path: table.chosen(model_dir), f"{path}_trials": table.trials(model_dir)}
        reports = [(where, Report.of_sweep(part, model_dir)) for where, part in parts.items() if part.entries]
        for where, report in reports:
            report.write_results(f"{where}.json")
            report.write_table(f"{where}.md")
        return reports

    make_folder(path)
    cache = ResultsCache(options.results_cache) if options.results_cache else None
    if cache:
        series.restore(table, model_dir, cache)
    made_up = options.quick and data_dir is None
    run_entries = functools.partial(
        series.run_series,
        model_dir=model_dir,
        data_dir=data_dir,
        run=functools.partial(train.run, use_fake_data=made_up),
        files=[find(file)[0] for file in files],
        processes=options.processes,
        cache=cache,
        on_run_end=write,
        check=lambda **arguments: check(RunOptions(**arguments, use_fake_data=made_up)),
    )
    try:
        series.run_rows(rows, model_dir, run_entries)
    except series.NothingRun:
        raise
    except BaseException:
        _show(write())
        raise
    _show(write())


def _show(reports: Sequence[tuple[str, Report]]) -> None:
    """Prints tables and writes plots."""
    for path, report in reports:
        print("\n" + "\n".join(report.table().markdown()) + "\n")
        plots = {} if path.endswith("_trials") else report.write_plots(path)
        for file in (f"{path}.md", f"{path}.json", *plots.values()):
            print(f"written  {file}")
