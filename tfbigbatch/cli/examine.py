"""Measures the checkpoints of runs: loss and metrics, sharpness, gradient noise, distance from initialization.

    tfbigbatch examine --data_dir=FOLDER --results=checkpoints runs/small_batch runs/legw
    tfbigbatch examine --study=mnist/study_why --model_dir=runs/why --data_dir=FOLDER \\
      --results=results/why/mnist_lenet_examined

For each checkpoint that a run kept (config.keep_checkpoints), and for its initial weights: loss and metrics on training
and on held-out examples, the largest eigenvalue and the trace of the Hessian, the gradient noise scale, and the
distance from the initial weights. Writes RESULTS.jsonl, a line per checkpoint; RESULTS.md, a table of each run's last
one; and RESULTS.png, all measurements against steps. The same command resumes: checkpoints in RESULTS.jsonl are not
measured again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.reports import checkpoint_report
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies import study
from tfbigbatch.utils import command
from tfbigbatch.utils.files import open_regular, reading_errors, write_text


def define_flags() -> None:
    flags.DEFINE_string("study", None, "Study file; its runs are in --model_dir.")
    flags.DEFINE_string("model_dir", None, "With --study: parent of its run directories.")
    flags.DEFINE_multi_string("register", [], "Experiment file that registers a task of your own; may be repeated.")
    flags.DEFINE_list("only", [], "Only these rows of the study: METHOD or METHOD@BATCH.")
    flags.DEFINE_list("seeds", [], "Only runs with these seeds.")
    flags.DEFINE_string("data_dir", None, "Folder of the task's data.")
    flags.DEFINE_string("results", None, "Path of the results; file extensions are added.", required=True)
    flags.DEFINE_bool("last", False, "Only the last checkpoint of each run.")
    flags.DEFINE_integer("fit_examples", 9984, "Training examples for loss and metrics.")
    flags.DEFINE_integer("sharpness_examples", 512, "Training examples for the Hessian.")
    flags.DEFINE_integer("noise_examples", 4096, "Training examples for the gradient noise scale.")


def main(folders: Sequence[str]) -> None:
    options = flags.FLAGS
    for file in options.register:
        experiment.execute(file)
    if bool(folders) == bool(options.study):
        raise InputError("expected either RUN_DIR... or --study=FILE with --model_dir=DIR; see --help.")
    if options.data_dir is not None and not os.path.exists(options.data_dir):
        raise InputError(f"--data_dir={options.data_dir}: no such folder. Give the folder of the runs' data.")
    if options.study and options.model_dir is None:
        raise InputError("--study needs --model_dir, the parent of its runs.")
    seeds = command.numbers("seeds", options.seeds, int)
    if options.study:
        table = study.load(options.study)
        chosen = {entry.name for entry in table.selected(options.only)}
        report = Report.of_study(table, options.model_dir)
        rows = [row for row in report.rows if row.name in chosen]
    else:
        report = Report.of_folders(folders)
        rows = report.rows
    make_folder(options.results)
    path = f"{options.results}.jsonl"
    measurements = _read(path)
    runs = [(row, run) for row in rows for run in row.runs if not seeds or run.seed in seeds]
    try:
        for number, (row, run) in enumerate(runs, 1):
            name = f"[{number}/{len(runs)}] {row.name} at {row.batch_size:,}, seed {run.seed}"
            _examine(row, run, measurements, path, name)
    finally:
        if measurements:
            _write(report, measurements, options.results)


def _write(report: Report, measurements: list[dict[str, Any]], results: str) -> None:
    order = [(row.name, row.batch_size) for row in report.rows]
    measurements.sort(
        key=lambda each: (order.index(_row_of(each)) if _row_of(each) in order else len(order), each["seed"])
    )
    lines = checkpoint_report.table(measurements).markdown(padded=False)
    write_text(f"{results}.md", f"{report.title}\n\n" + "\n".join(lines) + "\n")
    checkpoint_report.figure(f"{results}.png", measurements, report.title, report.baseline)
    print("\n" + "\n".join(lines) + "\n")
    for extension in ("jsonl", "md", "png"):
        print(f"written  {results}.{extension}")


def _examine(row: Any, run: Any, measurements: list[dict[str, Any]], path: str, name: str) -> None:
    """Measures the missing checkpoints of a run, and appends them to `measurements` and the file."""
    options = flags.FLAGS
    done = {
        each["step"]
        for each in measurements
        if _row_of(each) == (row.name, row.batch_size) and each["seed"] == run.seed
    }
    if options.last and run.status.get("step") in done:
        return
    # Imported late: TensorFlow takes seconds to import, and there may be nothing to do.
    from tfbigbatch.reports.checkpoint_analysis import CheckpointAnalysis, Probes

    probes = Probes(options.fit_examples, options.sharpness_examples, options.noise_examples)
    analysis = CheckpointAnalysis(run.directory, data_dir=options.data_dir, probes=probes)
    steps = [step for step in (analysis.steps[-1:] if options.last else analysis.steps) if step not in done]
    for step in steps:
        found = {"row": row.name, "batch_size": row.batch_size, "seed": run.seed, **analysis.measure(step)}
        measurements.append(found)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        eigenvalue, distance = found.get("eigenvalue_1", float("nan")), found["distance"]
        print(f"{name}, step {step:,}: largest eigenvalue {eigenvalue:.3g}, distance {distance:.3g}", flush=True)


def _row_of(measurement: dict[str, Any]) -> tuple[str, int]:
    return measurement["row"], measurement["batch_size"]


def _read(path: str) -> list[dict[str, Any]]:
    """The measurements in a file; an incomplete last line is removed from it.

    Raises:
      ValueError: the file holds something else.
    """
    measurements: list[dict[str, Any]] = []
    lines: list[str] = []
    if os.path.exists(path):
        with reading_errors(path), open_regular(path, encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    whole = True
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            # What a stopped process left.
            whole = False
            if number == len(lines):
                break
            raise _other_file(path, f"line {number} is not JSON") from None
        try:
            if not all(type(found[name]) is int for name in ("batch_size", "seed", "step")):
                raise TypeError("batch_size, seed and step are whole numbers")
            if not isinstance(found["row"], str):
                raise TypeError("row is the name of one")
            # What the table shows of it is all that is used.
            checkpoint_report.table([found])
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise _other_file(path, f"line {number}: {error!r:.200}") from None
        measurements.append(found)
    if not whole:
        write_text(path, "".join(json.dumps(each) + "\n" for each in measurements))
    return measurements


def _other_file(path: str, reason: str) -> InputError:
    return InputError(
        f"{path} does not hold the measurements of tfbigbatch examine ({reason}). Name another with --results, or move "
        "it away."
    )
