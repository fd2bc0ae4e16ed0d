"""Examines the checkpoints of runs: how well their weights fit, how sharp, how noisy, how far from the beginning.

    python tools/examine.py --data_dir=FOLDER --results=looked runs/small_batch runs/legw
    python tools/examine.py --study=experiments/mnist/study_why.py --model_dir=runs/why --data_dir=FOLDER \\
      --results=docs/results/why/mnist_lenet_examined

Of each checkpoint that a run kept (config.keep_checkpoints), and of the weights that it began with: loss and metrics
on training and on held-out examples, the largest eigenvalue and the trace of the Hessian, the gradient noise scale,
and the distance from the beginning. Writes RESULTS.jsonl, a line a checkpoint; RESULTS.md, the table of the last ones;
and RESULTS.png, all against updates. The same command goes on where it was stopped: what stands in RESULTS.jsonl is
not measured again.
"""

import json
import os

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.reports import checkpoint_report
from tfbigbatch.reports.report import Report, make_folder
from tfbigbatch.studies import study
from tfbigbatch.utils import command
from tfbigbatch.utils.files import write_text

flags.DEFINE_string("study", None, "A study file; its runs lie under --model_dir.")
flags.DEFINE_string("model_dir", None, "Where the study's run directories lie.")
flags.DEFINE_list("only", [], "These rows of the study alone: METHOD or METHOD@BATCH.")
flags.DEFINE_list("seeds", [], "Runs of these seeds alone.")
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_string("results", None, "Path of what is written; endings are added.", required=True)
flags.DEFINE_bool("last", False, "Each run's last checkpoint alone.")
flags.DEFINE_integer("fit_examples", 9984, "Training examples that loss and metrics are measured on.")
flags.DEFINE_integer("sharpness_examples", 512, "Training examples that the curvature is measured on.")
flags.DEFINE_integer("noise_examples", 4096, "Training examples that the noise scale is measured on.")


def _main(folders):
    options = flags.FLAGS
    if bool(folders) == bool(options.study):
        raise InputError("expected either RUN_DIR... or --study=FILE with --model_dir=DIR; see --help.")
    if options.study and options.model_dir is None:
        raise InputError("--study needs --model_dir, where its runs lie.")
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
    looks = _read(path)
    runs = [(row, run) for row in rows for run in row.runs if not seeds or run.seed in seeds]
    try:
        for number, (row, run) in enumerate(runs, 1):
            _examine(row, run, looks, path, f"[{number}/{len(runs)}] {row.name} at {row.batch_size:,}, seed {run.seed}")
    finally:
        if looks:
            order = [(row.name, row.batch_size) for row in report.rows]
            looks.sort(key=lambda look: (order.index(_of(look)) if _of(look) in order else len(order), look["seed"]))
            lines = list(checkpoint_report.table(looks))
            write_text(f"{options.results}.md", f"{report.title}\n\n" + "\n".join(lines) + "\n")
            checkpoint_report.figure(f"{options.results}.png", looks, report.title, report.baseline)
            print("\n" + "\n".join(lines) + "\n")
            for file in (path, f"{options.results}.md", f"{options.results}.png"):
                print(f"written  {file}")


def _examine(row, run, looks, path, name):
    """Measures what is missing of a run, and appends it to `looks` and the file."""
    options = flags.FLAGS
    done = {look["step"] for look in looks if _of(look) == (row.name, row.batch_size) and look["seed"] == run.seed}
    if options.last and run.status.get("step") in done:
        return
    # TensorFlow takes seconds to import, and there may be nothing to do.
    from tfbigbatch.reports.checkpoint_analysis import Examination, Probes

    probes = Probes(options.fit_examples, options.sharpness_examples, options.noise_examples)
    examination = Examination(run.directory, data_dir=options.data_dir, probes=probes)
    steps = [step for step in (examination.steps[-1:] if options.last else examination.steps) if step not in done]
    for step in steps:
        look = {"row": row.name, "batch_size": row.batch_size, "seed": run.seed, **examination.measure(step)}
        looks.append(look)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(look) + "\n")
        eigenvalue, distance = look.get("eigenvalue_1", float("nan")), look["distance"]
        print(f"{name}, step {step:,}: largest eigenvalue {eigenvalue:.3g}, distance {distance:.3g}", flush=True)


def _of(look):
    return look["row"], look["batch_size"]


def _read(path):
    """The looks that a file holds; a last line that was cut short is taken out of it."""
    looks, whole = [], True
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    looks.append(json.loads(line))
                except json.JSONDecodeError:
                    whole = False
                    break
    if not whole:
        write_text(path, "".join(json.dumps(look) + "\n" for look in looks))
    return looks


if __name__ == "__main__":
    command.execute(_main, takes_arguments=True)
