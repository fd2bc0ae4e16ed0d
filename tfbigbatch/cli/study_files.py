"""Runs studies and benchmarks: their rows, in stages where learning rates are chosen by trials."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence

from absl import flags

from tfbigbatch import experiment, train
from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.experiment.files import executed
from tfbigbatch.optimizers import registry
from tfbigbatch.reports.report import Report, make_folder, overview
from tfbigbatch.studies import changes, series, stages, study
from tfbigbatch.studies.study import Study
from tfbigbatch.training.directory import check
from tfbigbatch.training.options import RunOptions
from tfbigbatch.utils.files import write_text

BENCHMARKS = ("few_steps",)
"""Folders of shipped experiments with a `study.py` that has a study for each of its `VARIANTS`, the tasks."""


def run_benchmark(options: flags.FlagValues, name: str) -> None:
    """Runs the study of each task of a benchmark, and writes a table over all of its tasks.

    The table omits tasks that are not in --tasks and whose run directories hold another config.

    Raises:
      ValueError: there is no such benchmark or task.
    """
    if name not in BENCHMARKS:
        raise InputError(f"{name!r} is not a flag, and no benchmark. {nearest(name, BENCHMARKS)}")
    file = f"{name}/study"
    tasks = list(executed(experiment.find(file)[0]).VARIANTS)
    for task in options.tasks or ():
        if task not in tasks:
            raise InputError(f"--tasks: {name} has no task {task!r}. {nearest(task, tasks)}")
    path = options.results or os.path.join(options.model_dir, name)
    tables = {task: changed(options, study.load(f"{file}:{task}")) for task in tasks}
    folders = {task: os.path.join(options.model_dir, task) for task in tasks}
    if options.results_cache:
        # Those of all tasks, for the table over them.
        for task, table in tables.items():
            stages.restore(table, folders[task], options.results_cache)
    running = options.tasks or tasks
    left_out: set[str] = set()

    def write_overview() -> None:
        reports = {}
        for task, table in tables.items():
            try:
                if table.chosen(folders[task]).entries:
                    reports[table.title] = Report.of_study(table, folders[task])
            except InputError as error:
                # The runs of another task may be of other flags --config.FIELD.
                if task in running:
                    raise
                if task not in left_out:
                    print(f"left out of {path}.md: {task}, since {error}", flush=True)
                left_out.add(task)
        write_text(f"{path}.md", "\n".join([*overview(reports).markdown(), ""]))

    for task in running:
        data_dir = os.path.join(options.data_dir, tables[task].data_folder) if options.data_dir else None
        print(f"\n{tables[task].title}", flush=True)
        runs = {"model_dir": folders[task], "data_dir": data_dir, "path": f"{path}_{task}", "also": write_overview}
        run(options, tables[task], [f"{file}:{task}"], **runs)
    print(f"written  {path}.md")


def changed(options: flags.FlagValues, table: Study) -> Study:
    """A study as the flags --optimizer, --budget, --config.FIELD and --quick change it."""
    if not table.tuned and (options.budget or options.optimizer):
        raise InputError("--budget and --optimizer are for studies with trials; this one has none.")
    if options.optimizer:
        file, name = _own_optimizer(options)
        experiment.execute(file, "optimizer")
        if name not in registry.names():
            raise InputError(
                f"--optimizer={options.optimizer}: the file registers no optimizer {name!r}. It calls "
                f"tfbigbatch.optimizers.register({name!r}, CLASS) outside of its functions. "
                + nearest(name, registry.names())
            )
        table = changes.with_optimizer(table, name)
    if options.budget:
        # The rows beside one's own stay as they were.
        table = changes.with_budget(table, options.budget, [name] if options.optimizer else None)
    if fields := experiment_flags.overrides(options):
        table = changes.with_fields(table, fields)
    return changes.made_quick(table, options.data_dir) if options.quick else table


def _own_optimizer(options: flags.FlagValues) -> tuple[str, str]:
    file, _, name = options.optimizer.rpartition(":")
    if not file or not name:
        raise InputError(f"--optimizer={options.optimizer}: expected FILE:NAME, as my_optimizer.py:my_optimizer.")
    return file, name


def run(
    options: flags.FlagValues,
    table: Study,
    sources: Sequence[str],
    *,
    model_dir: str | None = None,
    data_dir: str | None = None,
    path: str | None = None,
    also: Callable[[], object] = lambda: None,
) -> None:
    """Runs the selected rows of a study. Its table and results are renewed after each run, its plots at the end.

    Args:
      options: the flags.
      table: the study.
      sources: the files that it is from.
      model_dir, data_dir, path: None for those of the flags; `path` is of the results, without extension.
      also: called after the tables are written.
    """
    model_dir, data_dir = model_dir or options.model_dir, data_dir or options.data_dir
    path = path or options.results or os.path.join(model_dir, "report")
    only, sources = options.only or [], list(sources)
    if options.optimizer:
        file, name = _own_optimizer(options)
        sources.append(file)
        only = only or [name]
    rows = table.selected(only)

    def write() -> list[tuple[str, Report]]:
        parts = {path: table.chosen(model_dir), f"{path}_trials": table.trials(model_dir)}
        reports = [(where, Report.of_study(part, model_dir)) for where, part in parts.items() if part.entries]
        for where, report in reports:
            report.write_results(f"{where}.json")
            report.write_table(f"{where}.md")
        also()
        return reports

    make_folder(path)
    if options.results_cache:
        stages.restore(table, model_dir, options.results_cache)
    made_up = options.quick and data_dir is None
    run_entries = functools.partial(
        series.run_series,
        model_dir=model_dir,
        data_dir=data_dir,
        run=functools.partial(train.run, use_fake_data=made_up),
        files=[experiment.find(source)[0] for source in sources],
        processes=options.processes,
        results_cache=options.results_cache,
        on_run_end=write,
        check=lambda **arguments: check(RunOptions(**arguments, use_fake_data=made_up)),
    )
    try:
        stages.run_rows(rows, model_dir, run_entries)
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
        is_trials = path.endswith("_trials")
        plots = [report.write_rates(f"{path}.png")] if is_trials else report.write_plots(path).values()
        for file in (f"{path}.md", f"{path}.json", *plots):
            print(f"written  {file}")
