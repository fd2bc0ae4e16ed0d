"""A cluster on one machine: starts N worker processes on loopback and restarts all of them when one is lost."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from tfbigbatch.errors import InputError, Preempted, WorkerLost
from tfbigbatch.utils.signals import collecting_signals

_POLL = 0.1  # seconds
# Of Linux' prctl(2): the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def free_addresses(count: int) -> list[str]:
    """Addresses "127.0.0.1:PORT" of a `TF_CONFIG` at which nothing listens; another program may take one before."""
    with contextlib.ExitStack() as open_together:  # So that no two are the same.
        servers = [open_together.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{server.getsockname()[1]}" for server in servers]


def launch(
    command: Sequence[str],
    workers: int,
    *,
    restarts: int = 0,
    grace: float = 60.0,
    loss_grace: float = 20.0,
    say: Callable[[str], object] = print,
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
      restarts: how often all workers may be restarted after one was lost.
      grace: seconds between SIGTERM and SIGKILL, for the workers to save.
      loss_grace: seconds between the loss of a worker and SIGKILL for the others, which usually notice the loss by
        themselves within seconds.
      say: function of a line, called with the launcher's own messages.

    Returns:
      The exit code: 0; that of the first failed worker; Preempted's after a requested stop; WorkerLost's when no
      restart is left.

    Raises:
      ValueError: no such program.
    """
    with collecting_signals() as requests:
        for left in range(restarts, -1, -1):
            processes = _start(command, free_addresses(workers))
            _wait(processes, grace, loss_grace, requests, say)
            code = _code([each.returncode for each in processes])
            if code != WorkerLost.exit_code or requests:
                break
            next_step = f"restarting all, {left} restart(s) left" if left else "no restart left"
            say(f"launcher: a worker was lost; {next_step}.")
    return Preempted.exit_code if requests and code else code


def _start(command: Sequence[str], addresses: Sequence[str]) -> list[subprocess.Popen]:
    processes: list[subprocess.Popen] = []
    for index in range(len(addresses)):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        try:
            started = subprocess.Popen(
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
        except OSError as error:
            _kill(processes)
            raise InputError(f"{command[0]} cannot be started: {error.strerror}.") from None
        processes.append(started)
    return processes


def _wait(
    processes: Sequence[subprocess.Popen],
    grace: float,
    loss_grace: float,
    requests: Sequence[int],
    say: Callable[[str], object],
) -> None:
    """Returns when all workers have ended; stops them on a request, or after one has failed."""
    readers = [threading.Thread(target=_pass_on, args=pair, daemon=True) for pair in enumerate(processes) if pair[0]]
    for reader in readers:
        reader.start()
    deadline: float | None = None
    while True:
        running = [index for index, each in enumerate(processes) if each.poll() is None]
        # One that ended with an error of its own comes before those that lost another.
        failed = [index for index, each in enumerate(processes) if each.returncode]
        failed.sort(key=lambda index: processes[index].returncode == WorkerLost.exit_code)
        if deadline is None and (requests or failed):
            lost = not requests and _is_loss(processes[failed[0]].returncode)
            if not requests:
                code = processes[failed[0]].returncode
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                say(f"launcher: worker {failed[0]} {how}.")
            for index in () if lost else running:
                processes[index].terminate()
            deadline = time.monotonic() + (loss_grace if lost else grace)
        elif running and (len(requests) > 1 or deadline and time.monotonic() > deadline):
            say(f"launcher: killing {', '.join(f'worker {index}' for index in running)}.")
            _kill([processes[index] for index in running])
        if not running:
            break
        time.sleep(_POLL)
    for reader in readers:
        # The timeout is for a grandchild that holds the pipe open.
        reader.join(timeout=5.0)


def _pass_on(index: int, process: subprocess.Popen) -> None:
    for line in process.stdout or ():
        sys.stdout.write(f"[worker {index}] {line}")
        sys.stdout.flush()


def _code(codes: Sequence[int]) -> int:
    # A worker's own error is the cause; that others lost it is the consequence.
    own = [code for code in codes if code > 0 and code not in (WorkerLost.exit_code, Preempted.exit_code)]
    if own:
        return own[0]
    # Workers stop together after all have saved: errors after the first one's exit are not a loss.
    if Preempted.exit_code in codes:
        return Preempted.exit_code
    return WorkerLost.exit_code if any(map(_is_loss, codes)) else max(codes)


def _is_loss(code: int) -> bool:
    return code < 0 or code == WorkerLost.exit_code


def _kill(processes: Sequence[subprocess.Popen]) -> None:
    for each in processes:
        if each.poll() is None:
            # What it has started, too: where the command is a script, the trainer is its child.
            os.killpg(each.pid, signal.SIGKILL)
    for each in processes:
        each.wait()


def ending_with_parent() -> Callable[[], None] | None:
    """The `preexec_fn` of a `subprocess.Popen` that is killed when this process ends; None where Linux is not."""
    return functools.partial(_end_with_parent, os.getpid()) if _PRCTL else None


def _end_with_parent(parent: int) -> None:
    assert _PRCTL is not None
    _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        # It has ended already.
        os._exit(1)
