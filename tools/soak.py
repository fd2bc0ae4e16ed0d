"""Trains the digits for hours, killing the process at random, and says what it took: memory, files, and the result.

    python tools/soak.py --minutes=120 --kill_every=60 --model_dir=runs/soak

An undisturbed run comes first. Then the same run again and again, each until it is done however often it is killed: its
weights have to be those of the first, bit by bit. A leak is seen in a process that lives for long: --kill_every=0 kills
none, and with --steps=10000000 one process takes all the time. The slopes are of each process's life but its first
--settle seconds, where ten minutes are left; the largest one counts.
"""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
from absl import flags

from tfbigbatch.cluster.vitals import Vitals
from tfbigbatch.errors import DivergedError, InputError, Preempted
from tfbigbatch.utils import command
from tfbigbatch.utils.signals import collecting_signals

flags.DEFINE_float("minutes", 120.0, "How long; the run in progress is then ended.", lower_bound=0.0)
flags.DEFINE_float("kill_every", 60.0, "Seconds between two kills, on average; 0 for none.", lower_bound=0.0)
flags.DEFINE_integer("steps", 20_000, "Updates of one run.", lower_bound=1)
flags.DEFINE_float("settle", 120.0, "Seconds of a process's life before its memory is looked at.", lower_bound=0.0)
flags.DEFINE_integer("seed", 0, "Of the kills' times.")
flags.DEFINE_string("model_dir", None, "Where the run directories go.", required=True)
flags.DEFINE_list("flags", [], "Further flags of the trainer, such as --config.asynchronous_saving=True.")

_LOOK = 1.0  # seconds
_LONG = 600.0  # seconds that tell a slope from noise


def _main(unused):
    options = flags.FLAGS
    choices, seen = random.Random(options.seed), {"starts": 0, "kills": 0, "runs": 0, "vitals": []}
    end = time.monotonic() + 60.0 * options.minutes
    with collecting_signals() as signals:
        first = os.path.join(options.model_dir, "undisturbed")
        # What the others are compared with is whole; where nothing is killed, the time is all that ends it.
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
    """Starts the trainer until its run is done; returns whether it is, which it is not when the time is up."""
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
            raise InputError(f"the trainer ended with code {process.returncode}; what it said stands above.")
    return False


def _watch(process, options, seen, signals, choices, end):
    """Looks at a process until it ends or is killed; returns whether it was killed."""
    vitals, when = Vitals(process.pid), float("inf")
    if choices and options.kill_every:
        when = time.monotonic() + choices.expovariate(1.0 / options.kill_every)
    seen["vitals"].append(vitals)
    while process.poll() is None:
        time.sleep(_LOOK)
        vitals.look()
        now = time.monotonic()
        if now > min(when, end) or signals:
            process.send_signal(signal.SIGKILL)
            process.wait()
            seen["kills"] += now > when
            return True
    return False


def _compare(first, other):
    """Raises where two runs end in other weights."""
    import tensorflow as tf

    one, two = (
        tf.train.load_checkpoint(tf.train.latest_checkpoint(os.path.join(each, "checkpoints")))
        for each in (first, other)
    )
    for name, dtype in one.get_variable_to_dtype_map().items():
        if dtype == tf.string or "save_counter" in name:
            continue
        if not np.array_equal(one.get_tensor(name), two.get_tensor(name), equal_nan=dtype.is_floating):
            raise DivergedError(f"{other} ended in another {name} than {first}.")


def _report(seen, options):
    long = [each for each in seen["vitals"] if each.samples and each.samples[-1].seconds >= options.settle + _LONG]
    slopes = [found for vitals in long if (found := vitals.slopes(options.settle))]
    samples = [sample for vitals in seen["vitals"] for sample in vitals.samples]
    left = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True).stdout.split()
    done = f"{seen['runs']} runs done, all in the undisturbed run's bits" if seen["runs"] else "no run done"
    print(f"{seen['starts']} starts, {seen['kills']} kills, {done}")
    print(f"processes left: {len(left) - 1 if left else 0}")  # pgrep is one of ours itself.
    print(f"memory: {max(each.memory for each in samples) / 2**20:.0f} MiB at most")
    print(f"files: {max(each.files for each in samples)} open at most")
    if not slopes:
        print(f"no process lived for {options.settle + _LONG:g} seconds, to tell how it grows: --kill_every=0")
    else:
        memory, files = (max(each) for each in zip(*slopes))
        print(
            f"steepest of {len(slopes)} lives: memory {memory * 3600 / 2**20:+.2f} MiB/h, files {files * 3600:+.2f}/h"
        )


if __name__ == "__main__":
    command.execute(_main)
