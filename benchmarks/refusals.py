"""Seconds in which a command with a mistake is refused, each in a process of its own; a Markdown table.

    python benchmarks/refusals.py
    python benchmarks/refusals.py --package=FOLDER     # of another checkout

Nothing is trained; the last column is the end of the message.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from absl import flags

from tfbigbatch.utils import command

_LEGW = "--config=digits/lstm_legw"
_MISTAKES = {
    "an unknown flag": ("train", _LEGW, "--model_dir=x", "--sed=1"),
    "an unknown experiment": ("train", "--config=digits/lstm_lewg", "--model_dir=x"),
    "an unknown field": ("train", _LEGW, "--model_dir=x", "--config.btach_size=3"),
    "a word for a number": ("train", _LEGW, "--model_dir=x", "--config.batch_size=abc"),
    "a duration without a unit": ("train", _LEGW, "--model_dir=x", "--config.duration=5"),
    "an argument of another optimizer": ("train", _LEGW, "--model_dir=x", "--config.optimizer.beta_1=0.9"),
    "no data": ("train", "--config=imagenet/resnet50", "--model_dir=x"),
    "a data folder that does not exist": ("train", "--config=mnist/lstm_legw", "--model_dir=x", "--data_dir=/nowhere"),
    "a study's data folder that does not exist": ("study", "--study=mnist/study", "--model_dir=x", "--data_dir=/no"),
    "a report of no run": ("report", "/nowhere"),
    "a text that does not exist": ("translate", "--model_dir=x", "--input=none.txt", "--output=y"),
}


def _main(unused):
    options = flags.FLAGS
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(options.package)}
    print("| mistake | seconds | of a processor | message |\n|---|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for mistake, arguments in _MISTAKES.items():
            seconds, processor = [], []
            for _ in range(options.repeats):
                started, before = time.perf_counter(), _processor_seconds()
                done = subprocess.run(
                    [sys.executable, "-m", "tfbigbatch", *arguments],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                seconds.append(time.perf_counter() - started)
                processor.append(_processor_seconds() - before)
            said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("See: ")]
            times = f"{statistics.median(seconds):.2f} | {statistics.median(processor):.2f}"
            print(f"| {mistake} | {times} | {said[-1][:100]} |", flush=True)


def _processor_seconds():
    """Of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags.DEFINE_string("package", here, "Folder that holds the package.")
    flags.DEFINE_integer("repeats", 3, "Processes of each command; the table has the median.")
    command.execute(_main)
