"""Seconds from the command to a run's first step, and from the same command after a kill to the step after its resume.

    python benchmarks/start.py --results=results/throughput/start.json
    python benchmarks/start.py --config=imagenet/resnet50 --data_dir=FOLDER --override=batch_size=16 --rounds=3
    python benchmarks/start.py --before=CHECKOUT       # and those of another checkout, in turn

A process of its own each time; the clock is that of this one, and stops at the run's first row of metrics. A run is
killed after its third step or later, and has checkpoints of every second.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

from tfbigbatch.utils import command
from tfbigbatch.utils.files import write_json

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FIELDS = ("duration=1000 steps", "log_every=1 steps", "evaluate_every=0 steps", "checkpoint_every=2 steps")
_POLL, _LONGEST = 0.005, 300.0  # seconds

flags.DEFINE_string("config", "digits/lstm_legw", "The experiment.")
flags.DEFINE_string("data_dir", None, "Folder of its data.")
flags.DEFINE_multi_string("override", [], "FIELD=VALUE of the experiment.")
flags.DEFINE_string("before", None, "Folder of another checkout of the package, which takes turns.")
flags.DEFINE_integer("rounds", 5, "Starts and resumes of each; the table has medians.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file, beside those of other experiments.")


def _rows(model_dir):
    """The steps of the rows of training so far, a number for each row."""
    path = os.path.join(model_dir, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.endswith("\n")]
    return [row["step"] for row in map(json.loads, lines) if row["split"] == "train"]


def _until(process, model_dir, started, is_enough):
    """Seconds until the rows of a running command are enough."""
    while not is_enough(_rows(model_dir)):
        if process.poll() is not None or time.perf_counter() - started > _LONGEST:
            raise RuntimeError(f"the run ended or took too long; see {model_dir}.log")
        time.sleep(_POLL)
    return time.perf_counter() - started


def _start_and_resume(package, model_dir):
    """Seconds to the first step, and to the first step after the resume; and what the trainer's own clock says."""
    options = flags.FLAGS
    arguments = [f"--config.{field}" for field in (*options.override, *_FIELDS)]
    arguments += [f"--data_dir={options.data_dir}"] if options.data_dir else []
    arguments += [f"--config={options.config}", f"--model_dir={model_dir}"]
    environment = {**os.environ, "PYTHONPATH": package}
    found = {}
    for name in ("start", "resume"):
        saved = _cut(model_dir) if name == "resume" else 0
        with open(f"{model_dir}.log", "ab") as log:
            started = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "tfbigbatch", "train", *arguments],
                # -m puts the working folder before PYTHONPATH.
                cwd=package,
                env=environment,
                stdout=log,
                stderr=log,
            )
            try:
                found[name] = _until(process, model_dir, started, lambda rows: rows[-1:] > [saved])
                _until(process, model_dir, started, lambda rows: rows[-1] >= 3)
            finally:
                process.kill()
                process.wait()
    return found


def _cut(model_dir):
    """Removes the rows after the newest checkpoint, as the resumed run does; returns its step."""
    saved = [name.split("-")[1] for name in os.listdir(os.path.join(model_dir, "checkpoints")) if ".index" in name]
    step = max(int(number.split(".")[0]) for number in saved)
    path = os.path.join(model_dir, "metrics.jsonl")
    with open(path, encoding="utf-8") as file:
        kept = [line for line in file if line.endswith("\n") and json.loads(line)["step"] <= step]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(kept)
    return step


def _main(unused):
    options = flags.FLAGS
    packages = {**({"before": os.path.abspath(options.before)} if options.before else {}), "now": _HERE}
    measured = {name: [] for name in packages}
    folder = tempfile.mkdtemp()
    try:
        for index in range(options.rounds):
            for name, package in packages.items():
                measured[name].append(_start_and_resume(package, os.path.join(folder, f"{name}-{index}")))
                shown = ", ".join(f"{part} {seconds:.2f} s" for part, seconds in measured[name][-1].items())
                print(f"round {index + 1}, {name}: {shown}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| experiment | | command to first step, s | resumed, s | ratio |\n|---|---|---:|---:|---:|")
    for name, rounds in measured.items():
        start, resume = (statistics.median(each[part] for each in rounds) for part in ("start", "resume"))
        ratio = statistics.median(each["resume"] / each["start"] for each in rounds)
        print(f"| {options.config} | {name} | {start:.2f} | {resume:.2f} | {ratio:.2f} |")
    if options.results:
        _write(options, measured)


def _write(options, measured):
    known = {}
    if os.path.exists(options.results):
        with open(options.results, encoding="utf-8") as file:
            known = json.load(file)
    known[options.config] = {"override": options.override, "cores": os.cpu_count(), "seconds": measured}
    write_json(options.results, known)


if __name__ == "__main__":
    command.execute(_main)
