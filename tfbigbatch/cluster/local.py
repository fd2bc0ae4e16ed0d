"""A cluster on one machine: N processes on loopback, started together, watched, and started again together."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from tfbigbatch.errors import InputError, Preempted, WorkerLost
from tfbigbatch.utils.signals import collecting_signals

_POLL = 0.1  # seconds


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long is waited, and how often is tried.

    Attributes:
      restarts: times that all workers are started again after one was lost.
      grace: seconds for the workers to save and end, once a stop was asked for; whoever is left then is killed.
      loss_grace: the same once a worker was lost, which the others notice by themselves: in seconds, unless they are
        still waiting for all to start.
    """

    restarts: int = 0
    grace: float = 60.0
    loss_grace: float = 20.0


def launch(command, workers, limits=None, say=print):
    """Runs a command in `workers` processes that find each other through TF_CONFIG, and waits for them.

    A worker that is killed, or ends with the exit code of WorkerLost, is lost; the others are given time to notice,
    and then all are started again, on other ports. A worker that ends otherwise without success (a wrong flag, a
    run that diverged) would do so again: the others are stopped, and nothing is started. SIGTERM and Ctrl-C go on to
    all workers once; a second one kills them.

    The first worker's output passes as it is, that of the others with their number before each line.

    Args:
      command: list of strings, the program and its arguments.
      workers: number of processes, 1 or more.
      limits: Limits.
      say: function of a line, for what the launcher itself does.

    Returns:
      The exit code: 0; that of the first worker that failed; Preempted's where a stop was asked for; WorkerLost's
      where no restart is left.

    Raises:
      ValueError: there is no such program, or fewer than one worker.
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
            say(f"launcher: a worker was lost; {f'all start again, {left} restart(s) left' if left else 'none left'}.")
    return Preempted.exit_code if requests and code else code


class _Attempt:
    """All workers, from one start to the end of the last of them."""

    def __init__(self, command, workers, limits, requests, say):
        addresses = _free_addresses(workers)
        self._limits, self._requests, self._say = limits, requests, say
        self._workers = []
        try:
            for index in range(workers):
                self._workers.append(_Worker(command, index, addresses))
        except OSError as error:
            self._kill(self._workers)
            raise InputError(f"{command[0]} cannot be started: {error.strerror}.") from None

    def outcome(self):
        """Waits for the end of all; returns the exit code of the attempt."""
        deadline, asked = None, False
        while running := [worker for worker in self._workers if worker.code() is None]:
            if len(self._requests) > 1 or (deadline and time.monotonic() > deadline):
                self._say(f"launcher: killing {', '.join(worker.name for worker in running)}.")
                self._kill(running)
            elif self._requests and not asked:
                asked = True
                deadline = time.monotonic() + self._limits.grace
                for worker in running:
                    worker.signal(signal.SIGTERM)
            elif deadline is None and (failed := self._failed()):
                self._say(f"launcher: {failed[0].name} {failed[0].ending()}.")
                if failed[0].code() < 0 or failed[0].code() == WorkerLost.exit_code:
                    deadline = time.monotonic() + self._limits.loss_grace
                else:
                    deadline = time.monotonic() + self._limits.grace
                    for worker in running:
                        worker.signal(signal.SIGTERM)
            time.sleep(_POLL)
        for worker in self._workers:
            worker.close()
        return self._code()

    def _failed(self):
        return [worker for worker in self._workers if worker.code()]

    def _code(self):
        codes = [worker.code() for worker in self._workers]
        # A message of its own says more than the loss of the others that follows from it.
        own = [code for code in codes if code > 0 and code not in (WorkerLost.exit_code, Preempted.exit_code)]
        if own:
            return own[0]
        # Workers stop together once all have saved: what becomes of the others after the first has ended is no loss.
        if Preempted.exit_code in codes:
            return Preempted.exit_code
        lost = any(code < 0 or code == WorkerLost.exit_code for code in codes)
        return WorkerLost.exit_code if lost else max(codes)

    def _kill(self, workers):
        for worker in workers:
            worker.signal(signal.SIGKILL)
        for worker in workers:
            worker.wait()


class _Worker:
    """One process of the cluster."""

    def __init__(self, command, index, addresses):
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
            # The terminal's Ctrl-C comes to the launcher alone, which passes it on once.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._pass_on, daemon=True) if index else None
        if self._reader:
            self._reader.start()

    def _pass_on(self):
        for line in self._process.stdout:
            sys.stdout.write(f"[{self.name}] {line}")
            sys.stdout.flush()

    def code(self):
        """The exit code, minus the signal's number where one ended it, or None while it runs."""
        return self._process.poll()

    def ending(self):
        """Words for how it ended."""
        code = self.code()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self):
        self._process.wait()

    def close(self):
        """Waits for the last of its output."""
        if self._reader:
            # A grandchild may hold the pipe open; nobody waits for that.
            self._reader.join(timeout=5.0)


def _free_addresses(count):
    # All are bound before any is let go: no two are the same.
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    finally:
        for each in sockets:
            each.close()
