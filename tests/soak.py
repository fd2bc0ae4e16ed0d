"""Injects failures into runs on the digits: goodput, repeated steps, and whether the weights are the same.

    python -m tests.soak --model_dir=runs/soak --results=results/reliability/soak --minutes=120

For 1, 2 and 4 processes: a run that nothing happens to, then a run for each kind of failure at random times, a mean of
--mean_time_between_failures seconds apart. Processes that end are started again until the run is done; its checkpoint
must then be the undisturbed run's in all bits. Each run that ends adds a line to RESULTS.jsonl. The same command does
the runs that are missing; --minutes is the time of one call.

Everything is done from outside of the processes and without root.
"""

import argparse
import collections
import contextlib
import glob
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import tensorflow as tf

from tfbigbatch.cluster.local import ending_with_parent, free_addresses
from tfbigbatch.errors import Preempted, WorkerLost
from tfbigbatch.runs.checkpoint_files import paths
from tfbigbatch.runs.run_directory import DONE, RunDirectory
from tfbigbatch.utils.signals import collecting_signals
from tfbigbatch.utils.tensorflow_paths import literal_path

KINDS = {
    "kill": "SIGKILL to one process",
    "freeze": "SIGSTOP to one process for 2 to 20 seconds",
    "terminate": "SIGTERM to one process",
    "disk_full": "all writes of the first process fail (RLIMIT_FSIZE 0: 'File too large' in place of 'No space left')",
    "lost_network": "one process's connections pass nothing on for 2 to 20 seconds (a proxy on loopback)",
    "damaged_checkpoint": "a byte of the newest checkpoint flipped, and SIGKILL to one process",
    "mixed": "any of these",
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
POLL, UNTIL = 0.05, 3600.0  # seconds
# The others of a lost worker notice it within these seconds, or are killed, as by launch-local.
LOSS_GRACE, END_GRACE = 20.0, 60.0


class Proxy:
    """Passes TCP connections on to a port on loopback, and holds all bytes back while `passes` is cleared."""

    def __init__(self, target):
        self.passes, self._target = threading.Event(), target
        self.passes.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.passes.set()
        self._listening.close()

    def _accept(self):
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            try:
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                # The worker does not listen yet, and the other one tries again.
                here.close()
                continue
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, one, other):
        with contextlib.suppress(OSError):
            while content := one.recv(1 << 16):
                self.passes.wait()
                other.sendall(content)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Workers:
    """The processes of one start of a run: one alone, or a cluster whose connections go through proxies."""

    def __init__(self, command, count, folder):
        ports = [int(each.rpartition(":")[2]) for each in free_addresses(count)] if count > 1 else []
        self.proxies = [Proxy(port) for port in ports]
        self._log = open(os.path.join(folder, "output.txt"), "ab")  # closed by `close`
        self.processes = []
        for index in range(count):
            environment = {**os.environ, "PYTHONPATH": ROOT}
            environment.pop("TF_CONFIG", None)
            if count > 1:
                # Each knows itself by its own port, and the others by their proxies.
                known = [port if other == index else self.proxies[other].port for other, port in enumerate(ports)]
                cluster = {"worker": [f"127.0.0.1:{port}" for port in known]}
                environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            options = {"start_new_session": True, "preexec_fn": ending_with_parent()}
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            self.processes.append(subprocess.Popen(command, env=environment, **pipes, **options))
            # Through a pipe: a file would be full as well where the disk is.
            threading.Thread(target=self._write_output, args=(self.processes[-1],), daemon=True).start()

    def _write_output(self, process):
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                self._log.write(line)
                self._log.flush()

    def running(self):
        return [each for each in self.processes if each.poll() is None]

    def outcome(self, until):
        """Waits for the end of all, or until `until()`; the exit code, or None.

        Where one ends with an error, the others have some seconds to notice, and are killed then.
        """
        while self.running():
            codes = [each.poll() for each in self.processes]
            if any(code not in (None, 0) for code in codes):
                self.wait(END_GRACE if Preempted.exit_code in codes else LOSS_GRACE, lambda: not self.running())
                break
            if until():
                return None
            time.sleep(POLL)
        self.kill()
        codes = [each.wait() for each in self.processes]
        # A worker's own error, if any; the loss of another is its consequence.
        own = [code for code in codes if code not in (0, WorkerLost.exit_code, Preempted.exit_code) and code > 0]
        return next(iter(own), next((code for code in codes if code), 0))

    def wait(self, seconds, until=None):
        """Waits so long, or until a process has ended, or `until()`."""
        until = until or (lambda: len(self.running()) < len(self.processes))
        ended = time.monotonic() + seconds
        while time.monotonic() < ended and not until():
            time.sleep(POLL)

    def kill(self):
        for each in self.running():
            each.kill()
            each.wait()

    def close(self):
        self.kill()
        for proxy in self.proxies:
            proxy.close()
        self._log.close()


def inject(kind, workers, checkpoints, choices):
    """Injects one failure, and returns when it is over; False where it cannot be: no checkpoint to damage."""
    running = workers.running()
    if not running or kind == "damaged_checkpoint" and not flip_newest(checkpoints):
        return False
    process = choices.choice(running)
    if kind in ("kill", "damaged_checkpoint"):
        process.kill()
    elif kind == "terminate":
        process.terminate()
    elif kind == "freeze":
        process.send_signal(signal.SIGSTOP)
        workers.wait(choices.uniform(2.0, 20.0))
        process.send_signal(signal.SIGCONT)
    elif kind == "disk_full":
        with contextlib.suppress(ProcessLookupError):
            # Python ignores the signal SIGXFSZ, so that the write fails with an error.
            _, hard = resource.prlimit(workers.processes[0].pid, resource.RLIMIT_FSIZE)
            resource.prlimit(workers.processes[0].pid, resource.RLIMIT_FSIZE, (0, hard))
    elif kind == "lost_network":
        proxy = workers.proxies[workers.processes.index(process)]
        proxy.passes.clear()
        workers.wait(choices.uniform(2.0, 20.0))
        proxy.passes.set()
    return True


def flip_newest(checkpoints):
    """Flips a bit in the middle of the newest checkpoint's data, if there is another one before it."""
    indices = glob.glob(os.path.join(glob.escape(checkpoints), "step-*.index"))
    if len(indices) < 2:
        return False
    newest = max(indices, key=lambda path: int(path.rpartition("-")[2].partition(".")[0]))
    try:
        with open(newest.replace(".index", ".data-00000-of-00001"), "r+b") as file:
            file.seek(os.path.getsize(file.name) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 4]))
    except (OSError, IndexError):
        # The run has removed it in the meantime.
        return False
    return True


class Soak:
    """One run with failures of one kind; 'none' is the undisturbed one."""

    def __init__(self, options, workers, steps, kind, signals):
        self._options, self._workers, self._steps, self._kind, self._signals = options, workers, steps, kind, signals
        self._folder = os.path.join(
            options.model_dir, f"{options.checkpoint_every.replace(' ', '_')}-{workers}-{steps}"
        )
        self._directory = os.path.join(self._folder, kind)
        # The same failures at the same times, whatever was run before.
        self._choices = random.Random(f"{options.seed} {workers} {kind}")
        self._failures, self._codes = collections.Counter(), collections.Counter()

    def is_done(self):
        return RunDirectory(self._directory).status().get("status") == DONE

    def row(self):
        """The run's row of the results; None where it was stopped on request."""
        # What a call before left is of failures that are not counted.
        shutil.rmtree(self._directory, ignore_errors=True)
        os.makedirs(self._directory)
        began = time.monotonic()
        while True:
            code = self._start()
            if self._signals:
                return None
            self._codes[str(code)] += 1
            if code == 0:
                break
            expected = code < 0 or code in (Preempted.exit_code, WorkerLost.exit_code) or self._failures["disk_full"]
            if not (expected and self._failures) or time.monotonic() - began > UNTIL:
                sys.exit(f"{self._directory}: ended with code {code} after {dict(self._failures)}; see output.txt.")
        status, undisturbed = RunDirectory(self._directory).status(), os.path.join(self._folder, "none")
        different = [] if self._kind == "none" else different_values(undisturbed, self._directory)
        assert self.is_done(), status
        return {
            "workers": self._workers,
            "steps": self._steps,
            "failures": self._kind,
            "checkpoint_every": self._options.checkpoint_every,
            "injected": dict(self._failures),
            "exit_codes": dict(self._codes),
            "wall_seconds": round(time.monotonic() - began, 1),
            "undisturbed_seconds": RunDirectory(undisturbed).status()["goodput"]["wall"],
            "goodput": status["goodput"],
            "same_bits": not different,
            "different": different[:5],
        }

    def _start(self):
        """Starts all processes, and injects failures until they end; returns their exit code."""
        arguments = [
            "--config=digits/lstm_lamb",
            f"--model_dir={self._directory}",
            f"--config.duration={self._steps} steps",
            "--config.batch_size=64",
            "--config.evaluation_batch_size=60",
            f"--config.evaluate_every={max(1, self._steps // 4)} steps",
            f"--config.checkpoint_every={self._options.checkpoint_every}",
            *(["--stall_timeout=60"] if self._workers > 1 else []),
            *self._options.flags,
        ]
        workers = Workers([sys.executable, "-m", "tfbigbatch", "train", *arguments], self._workers, self._folder)
        try:
            while True:
                when = time.monotonic() + self._choices.expovariate(1.0 / self._options.mean_time_between_failures)
                fails = self._kind != "none"
                code = workers.outcome(lambda: self._signals or fails and time.monotonic() > when)
                if code is not None or self._signals:
                    return code or 0
                kinds = [each for each in KINDS if each != "mixed" and (self._workers > 1 or each != "lost_network")]
                kind = self._choices.choice(kinds) if self._kind == "mixed" else self._kind
                self._failures[kind] += inject(kind, workers, f"{self._directory}/checkpoints", self._choices)
        finally:
            workers.close()


def different_values(one, other):
    """The names of the values in which the newest checkpoints of two runs differ, but for the number of saves."""
    first, second = (tf.train.load_checkpoint(literal_path(paths(f"{each}/checkpoints")[0])) for each in (one, other))
    names = first.get_variable_to_dtype_map().keys() | second.get_variable_to_dtype_map().keys()

    def same(name):
        values = [np.asarray(each.get_tensor(name)) for each in (first, second) if each.has_tensor(name)]
        return len(values) == 2 and values[0].dtype == values[1].dtype and values[0].tobytes() == values[1].tobytes()

    compared = (name for name in sorted(names) if not name.startswith(("save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH")))
    return [name for name in compared if not same(name)]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0, help="after these, no further run is begun")
    parser.add_argument("--workers", default="1,2,4", help="numbers of processes")
    parser.add_argument("--steps", default="10000,2000,1000", help="of a run, for each of --workers")
    parser.add_argument("--failures", default=",".join(KINDS), help=", ".join(f"{k}: {v}" for k, v in KINDS.items()))
    parser.add_argument("--mean_time_between_failures", type=float, default=30.0, help="seconds")
    parser.add_argument("--checkpoint_every", default="5 seconds", help="a duration or a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model_dir", required=True, help="folder of the run directories")
    parser.add_argument("--results", help="path of the results, without .jsonl; default: soak in --model_dir")
    parser.add_argument("flags", nargs="*", help="further flags of the trainer, after --")
    options = parser.parse_args(arguments)
    failures = [kind for kind in options.failures.split(",") if kind]
    cells = [
        (int(count), int(steps), kind)
        for count, steps in zip(options.workers.split(","), options.steps.split(","), strict=True)
        for kind in ("none", *failures)
        if int(count) > 1 or kind != "lost_network"
    ]
    path = options.results or os.path.join(options.model_dir, "soak")
    for folder in (options.model_dir, os.path.dirname(path) or "."):
        os.makedirs(folder, exist_ok=True)
    done, end = set(), time.monotonic() + 60.0 * options.minutes
    if os.path.exists(f"{path}.jsonl"):
        with open(f"{path}.jsonl", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        done = {(row["workers"], row["steps"], row["failures"], row["checkpoint_every"]) for row in rows}
    with collecting_signals() as signals:
        for cell in cells:
            soak = Soak(options, *cell, signals)
            # The undisturbed run is needed itself, and not its row alone.
            if (*cell, options.checkpoint_every) in done and (cell[2] != "none" or soak.is_done()):
                continue
            row = None if time.monotonic() > end or signals else soak.row()
            if row is None:
                break
            with open(f"{path}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
