"""Soak test: trains the digits for hours, kills the process at random, and reports memory, open files and the result.

    python tools/soak.py --minutes=120 --kill_every=60 --model_dir=runs/soak

The first run is undisturbed. Every later one is killed and resumed until it is done, and has to end with bitwise the
same weights. To find a leak, let one process run for long: --kill_every=0 --steps=10000000. The slopes of memory and
open files are fitted to each process that lives for ten minutes after its first --settle seconds; the steepest is
reported.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import numpy as np
from absl import flags

from tfbigbatch.errors import DivergedError, InputError, Preempted, missing_extra
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.utils import command
from tfbigbatch.utils.signals import collecting_signals
from tfbigbatch.utils.tensorflow_paths import literal_path

_EVERY = 1.0  # seconds between two samples
_LONG = 600.0  # seconds of samples for a slope


def define_flags() -> None:
    """Defines the flags of the command."""
    flags.DEFINE_float("minutes", 120.0, "Duration; the run in progress is then killed.", lower_bound=0.0)
    flags.DEFINE_float("kill_every", 60.0, "Seconds between two kills, on average; 0 for none.", lower_bound=0.0)
    flags.DEFINE_integer("steps", 20_000, "Optimizer steps of one run.", lower_bound=1)
    flags.DEFINE_float("settle", 120.0, "Seconds after a process's start that its slopes leave out.", lower_bound=0.0)
    flags.DEFINE_integer("seed", 0, "Seed of the times of the kills.")
    flags.DEFINE_string("model_dir", None, "Folder of the run directories.", required=True)
    flags.DEFINE_list("flags", [], "Further flags of the trainer, such as --config.steps_per_execution=10.")


@dataclasses.dataclass(frozen=True)
class Sample:
    """A measurement of one process.

    Attributes:
      seconds: since the first one.
      memory: resident, in bytes.
      files: number of open file descriptors.
    """

    seconds: float
    memory: int
    files: int


def sample(process, since: float) -> list[Sample]:
    """One Sample of a psutil.Process in a list; an empty list if the process has ended."""
    import psutil

    try:
        memory, files = process.memory_info().rss, process.num_fds()
    except psutil.Error:
        return []
    # A zombie process, ended but not waited for, has no memory.
    return [Sample(time.monotonic() - since, memory, files)] if memory else []


def slopes(samples: list[Sample], after: float = 0.0) -> tuple[float, float] | None:
    """Growth of memory (bytes) and open files per second: least squares over the samples later than `after` seconds.

    None with fewer than three such samples.
    """
    late = [each for each in samples if each.seconds >= after]
    if len(late) < 3:
        return None
    seconds = [each.seconds for each in late]
    memory = statistics.linear_regression(seconds, [each.memory for each in late]).slope
    return memory, statistics.linear_regression(seconds, [each.files for each in late]).slope


def _main(unused):
    try:
        import psutil  # noqa: F401
    except ImportError:
        raise missing_extra("psutil", "test") from None
    options = flags.FLAGS
    choices, seen = random.Random(options.seed), {"starts": 0, "kills": 0, "runs": 0, "processes": []}
    end = time.monotonic() + 60.0 * options.minutes
    with collecting_signals() as signals:
        first = os.path.join(options.model_dir, "undisturbed")
        # The reference has to finish; with --kill_every=0 only the time ends it.
        _run_to_its_end(first, options, seen, signals, None, float("inf") if options.kill_every else end)
        while time.monotonic() < end and not signals:
            directory = os.path.join(options.model_dir, f"run-{seen['runs']}")
            if _run_to_its_end(directory, options, seen, signals, choices, end):
                _compare(first, directory)
                seen["runs"] += 1
        if signals:
            raise Preempted("stopped on request.")
    _report(seen, options)


def _run_to_its_end(directory, options, seen, signals, choices, end):
    """Starts the trainer until its run is done; returns False when the time is up before."""
    while time.monotonic() < end and not signals:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tfbigbatch.train",
                "--config=experiments/digits/lstm_legw.py",
                f"--model_dir={directory}",
                f"--config.duration={options.steps} steps",
                f"--config.evaluate_every={max(1, options.steps // 4)} steps",
                "--config.checkpoint_every=100 steps",
                *options.flags,
            ],
            stdout=subprocess.DEVNULL,
        )
        seen["starts"] += 1
        killed = _watch(process, options, seen, signals, choices, end)
        if process.returncode == 0:
            return True
        if not killed:
            raise InputError(f"the trainer ended with code {process.returncode}; see its output above.")
    return False


def _watch(process, options, seen, signals, choices, end):
    """Samples a process until it ends or is killed; returns whether it was killed."""
    import psutil

    watched, began, samples, when = psutil.Process(process.pid), time.monotonic(), [], float("inf")
    if choices and options.kill_every:
        when = time.monotonic() + choices.expovariate(1.0 / options.kill_every)
    seen["processes"].append(samples)
    while process.poll() is None:
        time.sleep(_EVERY)
        samples += sample(watched, began)
        now = time.monotonic()
        if now > min(when, end) or signals:
            process.send_signal(signal.SIGKILL)
            process.wait()
            seen["kills"] += now > when
            return True
    return False


def _compare(first, other):
    """Raises DivergedError if the final weights of two runs differ."""
    import tensorflow as tf

    newest = (checkpoint_files.paths(os.path.join(each, "checkpoints"))[0] for each in (first, other))
    one, two = (tf.train.load_checkpoint(literal_path(path)) for path in newest)
    for name, dtype in one.get_variable_to_dtype_map().items():
        if dtype == tf.string or "save_counter" in name:
            continue
        if not np.array_equal(one.get_tensor(name), two.get_tensor(name), equal_nan=dtype.is_floating):
            raise DivergedError(f"{other} ended with another {name} than {first}.")


def _report(seen, options):
    long = [each for each in seen["processes"] if each and each[-1].seconds >= options.settle + _LONG]
    fitted = [found for samples in long if (found := slopes(samples, options.settle))]
    samples = [each for of_one in seen["processes"] for each in of_one]
    left = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True).stdout.split()
    done = f"{seen['runs']} runs done, all bitwise equal to the undisturbed run" if seen["runs"] else "no run done"
    print(f"{seen['starts']} starts, {seen['kills']} kills, {done}")
    print(f"processes left: {len(left) - 1 if left else 0}")  # Without pgrep itself.
    print(f"memory: {max(each.memory for each in samples) / 2**20:.0f} MiB at most")
    print(f"files: {max(each.files for each in samples)} open at most")
    if not fitted:
        print(f"no process lived for {options.settle + _LONG:g} seconds, so there is no slope: use --kill_every=0")
    else:
        memory, files = (max(each) for each in zip(*fitted))
        print(
            f"steepest of {len(fitted)} processes: memory {memory * 3600 / 2**20:+.2f} MiB/h, "
            f"files {files * 3600:+.2f}/h"
        )


if __name__ == "__main__":
    define_flags()
    command.execute(_main)
