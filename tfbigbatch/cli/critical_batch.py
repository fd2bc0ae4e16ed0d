"""Measures the critical batch of a run by branching: short trainings from its checkpoints at several batch sizes.

    tfbigbatch train --config=mnist/lstm_small_batch --model_dir=runs/small --config.keep_checkpoints=20 \\
      --config.checkpoint_every='5 epochs'
    tfbigbatch critical-batch runs/small --model_dir=runs/branches --results=runs/critical_batch --examples='2 epochs'
    tfbigbatch critical-batch --results=runs/critical_batch          # draws again what the file holds

Each branch trains from a checkpoint on equally many examples, at the run's own batch or a larger one, with the
learning rate that a rule gives (arXiv:2505.23971). The critical batch is the largest that loses less than --tolerance
on the held-out examples; its interval is from the spread over the seeds.

Writes RESULTS.jsonl, a line per branch; RESULTS.md, a table; RESULTS.png. The same command resumes. It ends with the
fields of a batch ramp that follows what was measured (docs/batch_ramps.md).
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Sequence

from absl import flags

from tfbigbatch import train
from tfbigbatch.config import execute
from tfbigbatch.errors import InputError
from tfbigbatch.reports import critical_batch_report as report
from tfbigbatch.reports.figure_style import check_matplotlib
from tfbigbatch.reports.losses import cross_entropy_of, read_lines, write_lines
from tfbigbatch.reports.report import make_folder
from tfbigbatch.run_directory.directory import DONE, RunDirectory
from tfbigbatch.scaling.batch_ramp import RAMP_RULES, BatchRamp
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.sweeps import branches, series
from tfbigbatch.sweeps.branches import BranchedRun
from tfbigbatch.sweeps.sweep import ENDED
from tfbigbatch.training.options import RunOptions, check
from tfbigbatch.utils import command
from tfbigbatch.utils.files import write_text


def define_flags() -> None:
    flags.DEFINE_string("results", None, "Path of the results; file extensions are added.", required=True)
    flags.DEFINE_string("model_dir", None, "Parent of the branches' run directories; needed with a RUN_DIR.")
    flags.DEFINE_string("data_dir", None, "Folder of the task's data. Default: the one that the run remembers.")
    flags.DEFINE_multi_string("register", [], "Experiment file that registers a task of your own; may be repeated.")
    flags.DEFINE_list("steps", [], "Steps of the checkpoints to branch from. Default: up to --points, spread evenly.")
    flags.DEFINE_integer("points", 3, "Checkpoints to branch from, where --steps is not given.", lower_bound=1)
    flags.DEFINE_list("batch_sizes", [], "Of the branches, from the run's own. Default: its doublings.")
    flags.DEFINE_string("examples", "1 epochs", "Duration of a branch.")
    flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of the order of the examples; an interval needs two.")
    flags.DEFINE_float("tolerance", 0.02, "What a batch may lose, in nats of the held-out loss.")
    flags.DEFINE_enum("rule", "sqrt", RAMP_RULES, "What the learning rate takes of a larger batch.")
    flags.DEFINE_integer("processes", 1, "Branches at once.", lower_bound=1)


def main(folders: Sequence[str]) -> None:
    options = flags.FLAGS
    for file in options.register:
        execute(file)
    if len(folders) > 1:
        raise InputError(f"expected one RUN_DIR; got {', '.join(folders)}.")
    if not math.isfinite(options.tolerance) or options.tolerance <= 0:
        raise InputError(f"--tolerance={options.tolerance}: expected nats above 0.")
    make_folder(options.results)
    # For the figure, which is drawn at the end.
    check_matplotlib()
    measured = read_lines(f"{options.results}.jsonl", lambda fields: report.Branch(**fields), command="critical-batch")
    if folders:
        _measure(folders[0], measured)
    elif not measured:
        raise InputError(f"{options.results}.jsonl holds no branch yet. Give RUN_DIR and --model_dir.")
    else:
        _write(measured)


def _measure(folder: str, measured: list[report.Branch]) -> None:
    """Runs the branches that the file lacks, and keeps each; writes table and figure, and prints a ramp by them."""
    options = flags.FLAGS
    if options.model_dir is None:
        raise InputError("RUN_DIR needs --model_dir, the parent of the branches.")
    RunDirectory(folder).started()
    run = BranchedRun(folder, data_dir=options.data_dir)
    length = run.examples_of(options.examples)
    asked = {"run": run.fingerprint, "trained": length, "rule": options.rule}
    for each in measured:
        # A table would compare nothing.
        other = {name: getattr(each, name, value) for name, value in asked.items()}
        if other != asked:
            raise InputError(
                f"{options.results}.jsonl holds branches of {other}; this run and these flags are {asked}. Give the "
                "flags that it was made with, or another --results and --model_dir."
            )
    points = run.points(command.numbers("steps", options.steps, int), options.points)
    seeds = command.numbers("seeds", options.seeds, int)
    if not seeds:
        raise InputError("--seeds= is empty; expected such as 0,1,2.")
    sizes = command.numbers("batch_sizes", options.batch_sizes, int) or run.batch_sizes(length)
    branched = [
        (point, size, entry)
        for point in points
        for size, entry in zip(
            sizes, run.branches(point, sizes, examples=options.examples, seeds=seeds, rule=options.rule)
        )
    ]

    def keep_ended() -> None:
        known = {(each.step, each.batch_size, each.seed) for each in measured}
        for (point, size, entry), seed in itertools.product(branched, seeds):
            status = RunDirectory(entry.directory(options.model_dir, seed)).status()
            if (point.step, size, seed) not in known and status.get("status") in ENDED:
                loss = cross_entropy_of(status["metrics"]) if status["status"] == DONE else math.inf
                at = (point.step, point.examples, point.epoch, point.learning_rate)
                measured.append(report.Branch(*at, length, size, seed, loss, options.rule, run.fingerprint))
        write_lines(f"{options.results}.jsonl", map(vars, measured))

    try:
        series.run_series(
            [entry for *_, entry in branched],
            model_dir=options.model_dir,
            data_dir=run.data_dir,
            run=functools.partial(
                branches.run_branch, checkpoints={each.step: each.checkpoint for each in points}, run=train.run
            ),
            processes=options.processes,
            on_run_end=keep_ended,
            check=lambda **arguments: check(RunOptions(**arguments)),
        )
        # Also branches that ended before, without a row in the file.
        keep_ended()
    finally:
        if measured:
            _write(measured)
    say_ramp(run.config.batch_size, report.points_of(measured, options.tolerance))


def _write(measured: Sequence[report.Branch]) -> None:
    """Writes and prints the table, and draws the figure."""
    options = flags.FLAGS
    points = report.points_of(measured, options.tolerance)
    lines = report.table(points).markdown()
    heading = f"{os.path.basename(options.results)}: the largest batch that loses less than {options.tolerance:g} nats"
    write_text(f"{options.results}.md", "\n".join([heading, "", *lines, ""]))
    report.figure(f"{options.results}.png", points, heading, options.tolerance)
    print("\n" + "\n".join(lines) + "\n")
    for extension in ("jsonl", "md", "png"):
        print(f"written  {options.results}.{extension}")


def say_ramp(own: int, points: Sequence[report.Point]) -> None:
    """Prints the fields of a ramp from the run's own batch that follows the measurements, if there are any."""
    if not points:
        return
    measured = []
    for point in points:
        # Beyond the largest branch nothing was measured.
        most = float(max(each.batch_size for each in point.branches))
        measured.append((f"{point.first.examples} examples", min(point.critical.estimate, most)))
    # How the batch grows does not depend on the rate.
    growth = BatchRamp.following(Recipe(own, 1.0, epochs=1.0), measured).growth
    shown = "".join(f"({duration!r},{batch_size})," for duration, batch_size in growth)
    if growth:
        print(f'\nramp     --config.ramp.name=growth "--config.ramp.growth=({shown})"')
    else:
        print(f"\nramp     none: no larger batch keeps the loss of {own:,}.")
