"""A cluster on one machine: starts N worker processes on loopback and restarts all of them when one is lost."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from tfbigbatch.cluster.loopback import free_addresses
from tfbigbatch.errors import InputError, Preempted, WorkerLost
from tfbigbatch.utils.signals import collecting_signals

_POLL = 0.1  # seconds
# Of Linux' prctl(2): the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a launch.

    Attributes:
      restarts: how often all workers may be restarted after one was lost.
      grace: seconds between SIGTERM and SIGKILL, for the workers to save.
      loss_grace: seconds between the loss of a worker and SIGKILL for the others, which usually notice the loss by
        themselves within seconds.
    """

    restarts: int = 0
    grace: float = 60.0
    loss_grace: float = 20.0


def launch(
    command: Sequence[str], workers: int, limits: Limits | None = None, say: Callable[[str], object] = print
) -> int:
    """Runs a command in `workers` processes that find each other through TF_CONFIG, and waits for them.

    A worker that is killed, or exits with WorkerLost's code, is lost: after `loss_grace` all workers are restarted on
    other ports. Any other failure (a wrong flag, a diverged run) would happen again: the other workers are stopped,
    without a restart. SIGTERM and Ctrl-C are passed on to all workers once; a second one kills them. Where the launcher
    itself is killed the workers are killed with it, on Linux: they would train on beside those of its next start.

    The first worker's output is shown unchanged; lines of the others start with their index.

    Args:
      command: the program and its arguments.
      workers: number of processes, 1 or more.
      limits: restarts and timeouts.
      say: function of a line, called with the launcher's own messages.

    Returns:
      The exit code: 0; that of the first failed worker; Preempted's after a requested stop; WorkerLost's when no
      restart is left.

    Raises:
      ValueError: no such program, or an argument out of range.
    """
    limits = limits or Limits()
    if workers < 1:
        raise InputError(f"--workers={workers}: expected 1 or more.")
    if limits.restarts < 0:
        raise InputError(f"--restarts={limits.restarts}: expected 0 or more.")
    for name in ("grace", "loss_grace"):
        if getattr(limits, name) <= 0:
            raise InputError(f"--{name}={getattr(limits, name)}: expected more than 0 seconds.")
    with collecting_signals() as requests:
        for attempt in range(limits.restarts + 1):
            code = _Attempt(command, workers, limits, requests, say).outcome()
            if code != WorkerLost.exit_code or requests:
                break
            left = limits.restarts - attempt
            next_step = f"restarting all, {left} restart(s) left" if left else "no restart left"
            say(f"launcher: a worker was lost; {next_step}.")
    return Preempted.exit_code if requests and code else code


class _Attempt:
    """All workers, from one start until the last one ends."""

    def __init__(
        self,
        command: Sequence[str],
        workers: int,
        limits: Limits,
        requests: list[int],
        say: Callable[[str], object],
    ) -> None:
        addresses = free_addresses(workers)
        self._limits, self._requests, self._say = limits, requests, say
        self._workers: list[_Worker] = []
        try:
            for index in range(workers):
                self._workers.append(_Worker(command, index, addresses))
        except OSError as error:
            self._kill(self._workers)
            raise InputError(f"{command[0]} cannot be started: {error.strerror}.") from None

    def outcome(self) -> int:
        """Waits for all workers; returns the exit code of the attempt."""
        deadline: float | None = None
        asked = told = False
        while running := [worker for worker in self._workers if worker.code() is None]:
            if len(self._requests) > 1 or (deadline and time.monotonic() > deadline):
                self._say(f"launcher: killing {', '.join(worker.name for worker in running)}.")
                self._kill(running)
            elif self._requests and not asked:
                asked = True
                deadline = self._terminate(running)
            elif deadline is None and (failed := self._failed()):
                told = True
                self._say(f"launcher: {failed[0].name} {failed[0].ending()}.")
                if _is_loss(failed[0].code()):
                    deadline = time.monotonic() + self._limits.loss_grace
                else:
                    deadline = self._terminate(running)
            time.sleep(_POLL)
        if not asked and not told and (failed := self._failed()):
            # All have ended since the last look.
            self._say(f"launcher: {failed[0].name} {failed[0].ending()}.")
        for worker in self._workers:
            worker.close()
        return self._code()

    def _terminate(self, workers: Iterable[_Worker]) -> float:
        """Sends SIGTERM; returns the time to kill those that are left."""
        for worker in workers:
            worker.signal(signal.SIGTERM)
        return time.monotonic() + self._limits.grace

    def _failed(self) -> list[_Worker]:
        """The workers that ended with an error; last those that only lost another one."""
        failed = [worker for worker in self._workers if worker.code()]
        return sorted(failed, key=lambda worker: worker.code() == WorkerLost.exit_code)

    def _code(self) -> int:
        codes = [worker.code() or 0 for worker in self._workers]
        # A worker's own error is the cause; that others lost it is the consequence.
        own = [code for code in codes if code > 0 and code not in (WorkerLost.exit_code, Preempted.exit_code)]
        if own:
            return own[0]
        # Workers stop together after all have saved: errors after the first one's exit are not a loss.
        if Preempted.exit_code in codes:
            return Preempted.exit_code
        return WorkerLost.exit_code if any(map(_is_loss, codes)) else max(codes)

    def _kill(self, workers: Iterable[_Worker]) -> None:
        for worker in workers:
            worker.signal(signal.SIGKILL)
        for worker in workers:
            worker.wait()


def _is_loss(code: int | None) -> bool:
    return code is not None and (code < 0 or code == WorkerLost.exit_code)


def ending_with_parent() -> Callable[[], None] | None:
    """Of `subprocess.Popen`, its `preexec_fn`: the process is killed when this one ends; None where Linux is not."""
    return functools.partial(_end_with_parent, os.getpid()) if _PRCTL else None


def _end_with_parent(parent: int) -> None:
    """Called in a new process before its program: it is killed when its parent ends."""
    assert _PRCTL is not None
    _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        # It has ended already.
        os._exit(1)


class _Worker:
    """One process of the cluster."""

    def __init__(self, command: Sequence[str], index: int, addresses: list[str]) -> None:
        self.name = f"worker {index}"
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "TF_CONFIG": json.dumps(task)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if index else None,
            stderr=subprocess.STDOUT if index else None,
            text=True,
            errors="replace",
            # The terminal's Ctrl-C then reaches the launcher alone, which passes it on once.
            start_new_session=True,
            preexec_fn=ending_with_parent(),
        )
        self._reader = threading.Thread(target=self._pass_on, daemon=True) if index else None
        if self._reader:
            self._reader.start()

    def _pass_on(self) -> None:
        for line in self._process.stdout or ():
            sys.stdout.write(f"[{self.name}] {line}")
            sys.stdout.flush()

    def code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        return self._process.poll()

    def ending(self) -> str:
        """How it ended, for a message."""
        code = self.code() or 0
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL and self.code() is None:
            # What it has started, too: where the command is a script, the trainer is its child.
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def wait(self) -> None:
        self._process.wait()

    def close(self) -> None:
        """Waits for the rest of its output."""
        if self._reader:
            # The timeout is for a grandchild that holds the pipe open.
            self._reader.join(timeout=5.0)
