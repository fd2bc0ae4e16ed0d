"""Injected failures: workers on loopback that are killed, frozen, slowed, cut off, or find their disk full or slow.

Everything is done from outside of the processes and without root privileges, except a slow disk: TensorFlow's and
Python's writes are then slowed within the process, by `slow_disk`.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfbigbatch.cluster.local import ending_with_parent
from tfbigbatch.cluster.loopback import free_ports
from tfbigbatch.errors import InputError, Preempted, WorkerLost

KINDS = {
    "kill": "SIGKILL to one process",
    "freeze": "SIGSTOP to one process for 2 to 20 seconds",
    "terminate": "SIGTERM to one process",
    "disk_full": "all writes of the first process fail (RLIMIT_FSIZE 0: 'File too large' in place of 'No space left')",
    "slow_disk": "each checkpoint and each fsync takes 3 seconds more, for 20 seconds",
    "lost_network": "one process's connections pass nothing on for 2 to 20 seconds (a proxy on loopback)",
    "damaged_checkpoint": "a byte of the newest checkpoint flipped, and SIGKILL to one process",
    "slow_worker": "one process stopped for half of the time, for 20 seconds (SIGSTOP and SIGCONT in turn)",
}
"""What each kind of failure does."""

SWITCH = "TFBIGBATCH_SLOW_DISK"
"""Environment variable with the path of the file for `slow_disk`."""

_OF_CLUSTERS = ("lost_network",)
_SLOW_SECONDS, _SLOW_WRITE, _POLL = 20.0, 3.0, 0.05
# Others of a lost worker notice it within these seconds, or are killed, as by `launch-local`.
_LOSS_GRACE, _END_GRACE = 20.0, 60.0
_LONGEST_MESSAGE = 1 << 16


def kinds_for(workers: int) -> list[str]:
    """The kinds that a number of processes can have: a single one has no network to lose."""
    return [kind for kind in KINDS if workers > 1 or kind not in _OF_CLUSTERS]


class Proxy:
    """Passes TCP connections on to a port on loopback, and holds all bytes back while it is cut.

    Args:
      target: the port.

    Attributes:
      port: that it listens to.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._open, self._closed = threading.Event(), False
        self._open.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """A context in which nothing passes, as where packets are lost; then what was sent arrives."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def close(self) -> None:
        """Accepts no further connections."""
        self._closed = True
        self._open.set()
        self._listening.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                here, _ = self._listening.accept()
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                # Closed; or the worker does not listen yet, and the other one tries again.
                with contextlib.suppress(OSError, UnboundLocalError):
                    here.close()
                time.sleep(_POLL)
                continue
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := one.recv(_LONGEST_MESSAGE):
                self._open.wait()
                other.sendall(content)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Workers:
    """The processes of one start of a run: one alone, or a cluster whose connections go through proxies.

    Args:
      command: of each process.
      count: of processes.
      folder: for the workers' output, and the switch of the slow disk: `SWITCH` in the environment.
    """

    def __init__(self, command: Sequence[str], count: int, folder: str) -> None:
        self.switch = os.path.join(folder, "slow_disk")
        with contextlib.suppress(OSError):
            os.remove(self.switch)
        ports = free_ports(count) if count > 1 else []
        self.proxies = [Proxy(port) for port in ports]
        self._log = open(os.path.join(folder, "output.txt"), "ab")  # closed by `close`
        self.processes = []
        for index in range(count):
            environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
            if count > 1:
                # Each knows itself by its own port, and the others by their proxies.
                known = [port if other == index else self.proxies[other].port for other, port in enumerate(ports)]
                task = {"type": "worker", "index": index}
                cluster = {"worker": [f"127.0.0.1:{port}" for port in known]}
                environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
            environment[SWITCH] = self.switch
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=ending_with_parent(),
                )
            )
            # Through a pipe: a file would be full as well where the disk is.
            threading.Thread(target=self._write_output, args=(self.processes[-1],), daemon=True).start()

    def _write_output(self, process: subprocess.Popen) -> None:
        for line in process.stdout or ():
            with contextlib.suppress(ValueError):
                self._log.write(line)
                self._log.flush()

    def running(self) -> list[subprocess.Popen]:
        """The processes that have not ended."""
        return [each for each in self.processes if each.poll() is None]

    def outcome(self, until: Callable[[], bool]) -> int | None:
        """Waits for the end of all, or until something is to be done; the exit code, or None.

        Where one ends with an error, the others have some seconds to notice, and are killed then.

        Args:
          until: whether to return before the end.
        """
        while self.running():
            codes = [each.poll() for each in self.processes]
            if any(code not in (None, 0) for code in codes):
                return self._end_others(_END_GRACE if Preempted.exit_code in codes else _LOSS_GRACE)
            if until():
                return None
            time.sleep(_POLL)
        return self._code()

    def _end_others(self, grace: float) -> int:
        deadline = time.monotonic() + grace
        while self.running() and time.monotonic() < deadline:
            time.sleep(_POLL)
        self.kill()
        return self._code()

    def _code(self) -> int:
        """That of a worker's own error, if any; the loss of another is its consequence."""
        codes = [each.wait() for each in self.processes]
        own = [code for code in codes if code not in (0, WorkerLost.exit_code, Preempted.exit_code) and code > 0]
        return next(iter(own), next((code for code in codes if code), 0))

    def kill(self) -> None:
        """Kills all that run."""
        for each in self.running():
            each.send_signal(signal.SIGKILL)
            each.wait()

    def close(self) -> None:
        """Kills all that run, and closes proxies and output."""
        self.kill()
        for proxy in self.proxies:
            proxy.close()
        self._log.close()


def inject(kind: str, workers: Workers, checkpoints: str, choices: random.Random) -> bool:
    """Injects one failure, and returns when it is over; False where it could not be: no checkpoint to damage.

    Args:
      kind: of KINDS.
      workers: that run.
      checkpoints: folder of the run's checkpoints.
      choices: of the process, and of durations.

    Raises:
      ValueError: the kind is unknown.
    """
    if kind not in KINDS:
        raise InputError(f"failure {kind!r} is unknown; expected one of {', '.join(KINDS)}.")
    running = workers.running()
    if not running:
        return False
    index = choices.randrange(len(running))
    process = running[index]
    if kind == "damaged_checkpoint" and not flip_newest(checkpoints):
        return False
    if kind in ("kill", "damaged_checkpoint"):
        process.send_signal(signal.SIGKILL)
    elif kind == "terminate":
        process.send_signal(signal.SIGTERM)
    elif kind == "freeze":
        process.send_signal(signal.SIGSTOP)
        _wait(workers, choices.uniform(2.0, 20.0))
        process.send_signal(signal.SIGCONT)
    elif kind == "slow_worker":
        _slow_down(workers, process)
    elif kind == "disk_full":
        _fill_disk(workers.processes[0].pid)
    elif kind == "slow_disk":
        with open(workers.switch, "w", encoding="utf-8") as file:
            file.write(str(_SLOW_WRITE))
        _wait(workers, _SLOW_SECONDS)
        os.remove(workers.switch)
    else:
        with workers.proxies[workers.processes.index(process)].cut():
            _wait(workers, choices.uniform(2.0, 20.0))
    return True


def flip_newest(checkpoints: str) -> bool:
    """Flips a bit in the middle of the newest checkpoint's data; returns whether there was another one before it."""
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


def slow_disk(switch: str) -> None:
    """Makes the checkpoints and fsyncs of this process slow while the file `switch` exists.

    Args:
      switch: holds the seconds that each takes longer.
    """
    from tfbigbatch.utils.startup import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    save, fsync = tf.train.CheckpointManager.save, os.fsync

    def delay() -> None:
        with contextlib.suppress(OSError, ValueError), open(switch, encoding="utf-8") as file:
            time.sleep(float(file.read()))

    def slow_save(*arguments: object, **options: object) -> object:
        delay()
        return save(*arguments, **options)

    def slow_fsync(fd: Any) -> None:
        delay()
        fsync(fd)

    tf.train.CheckpointManager.save = slow_save
    os.fsync = slow_fsync


def _slow_down(workers: Workers, process: subprocess.Popen) -> None:
    ended = time.monotonic() + _SLOW_SECONDS
    while time.monotonic() < ended and len(workers.running()) == len(workers.processes):
        process.send_signal(signal.SIGSTOP)
        time.sleep(_POLL)
        process.send_signal(signal.SIGCONT)
        time.sleep(_POLL)


def _wait(workers: Workers, seconds: float) -> None:
    """Waits so long, or until a process has ended."""
    ended = time.monotonic() + seconds
    while time.monotonic() < ended and len(workers.running()) == len(workers.processes):
        time.sleep(_POLL)


def _fill_disk(pid: int) -> None:
    import resource

    with contextlib.suppress(ProcessLookupError):
        # Python ignores the signal SIGXFSZ, so that the write fails with an error.
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
