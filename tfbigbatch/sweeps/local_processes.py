"""An executor that runs calls in processes of this machine: python -m tfbigbatch.sweeps.local_processes.

A training run needs an interpreter with TensorFlow's own settings, a log file, and SIGTERM with the time to save a
checkpoint, none of which a worker of `concurrent.futures.ProcessPoolExecutor` can have.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tfbigbatch.errors import DivergedError, InputError, Preempted
from tfbigbatch.utils import command
from tfbigbatch.utils.files import writing_errors
from tfbigbatch.utils.processes import cores

_LOG_LINES = 8


@dataclasses.dataclass(eq=False)
class _Worker:
    """A process, and the connection that its calls go through."""

    process: subprocess.Popen[bytes]
    calls: Connection

    def end(self) -> None:
        """Ends the process, which has no call, and waits for it."""
        self.calls.close()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class LocalProcesses(concurrent.futures.Executor):
    """Runs calls with an argument `model_dir`, each in a process with the log MODEL_DIR.log and its part of the cores.

    A call has no result. Its process gets SIGTERM where this one is killed.

    Args:
      processes: how many at once.
      reuses: whether a process may make several calls, one after another: without the seconds of a new interpreter and
        its imports, with the settings that TensorFlow got in the first.

    Attributes:
      environment: of the processes.
    """

    def __init__(self, processes: int, *, reuses: bool = False) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(processes)
        self._reuses = reuses
        self._idle: list[_Worker] = []
        self._running: set[_Worker] = set()
        self._told: set[_Worker] = set()
        threads = str(max(1, cores() // processes))
        self.environment = {
            "TF_NUM_INTRAOP_THREADS": threads,
            "TF_NUM_INTEROP_THREADS": threads,
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        }

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **options: Any
    ) -> concurrent.futures.Future[Any]:
        return self._threads.submit(self._run, (function, arguments, options), f"{options['model_dir']}.log")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the calls; or cancels those that have not begun, and sends the others SIGTERM to save and end."""
        if cancel_futures:
            # Once each, in several calls: a second signal would interrupt the saving.
            for worker in self._running - self._told:
                worker.process.terminate()
                self._told.add(worker)
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        while self._idle:
            self._idle.pop().end()

    def _run(self, call: tuple[Any, ...], log: str) -> None:
        """Makes a call in a process until it has ended; raises Preempted where a signal stopped it."""
        with writing_errors(log):
            os.makedirs(os.path.dirname(log), exist_ok=True)
            with open(log, "ab") as file:
                start = file.tell()
        sent = pickle.dumps((call, log))
        worker = self._taking(sent)
        code, is_refused = None, False
        with contextlib.suppress(EOFError, OSError):  # It may have ended; its log says why.
            code, is_refused = worker.calls.recv()
        self._running.discard(worker)
        if code == 0 and self._reuses and worker not in self._told:
            self._idle.append(worker)
            return
        worker.end()
        code = worker.process.returncode if code is None else code
        if code in (Preempted.exit_code, -signal.SIGTERM):
            raise Preempted("stopped on request")
        if code:
            with open(log, "rb") as written:
                written.seek(start)
                last = written.read().decode(errors="replace").rstrip().splitlines()[-_LOG_LINES:]
            message = "\n    ".join([f"FAILED with exit code {code}; see {log}", *last])
            # What is refused would be refused again.
            raise InputError(message) if is_refused else RuntimeError(message)

    def _taking(self, sent: bytes) -> _Worker:
        """A running process that has taken a call: one that made its last, unless it died since, or a new one."""
        while True:
            try:
                worker, is_new = self._idle.pop(), False
            except IndexError:
                worker, is_new = self._started(), True
            self._running.add(worker)
            with contextlib.suppress(EOFError, OSError):
                worker.calls.send_bytes(sent)
                worker.calls.recv()
                return worker
            if is_new:
                return worker
            self._running.discard(worker)
            worker.end()

    def _started(self) -> _Worker:
        """A new process."""
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tfbigbatch.sweeps.local_processes", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                env=self.environment,
                pass_fds=[theirs.fileno()],
                # The terminal's Ctrl-C then reaches this process alone, which passes it on as one SIGTERM.
                start_new_session=True,
            )
        return _Worker(process, ours)


def main(arguments: list[str]) -> None:
    """Makes the calls that come through the connection, until its other end closes."""
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    with Connection(int(arguments[0])) as calls, contextlib.suppress(EOFError):
        while True:
            sent = calls.recv_bytes()
            calls.send("taken")
            (function, given, options), log = pickle.loads(sent)
            with open(log, "ab") as file:
                for output in (sys.stdout, sys.stderr):
                    os.dup2(file.fileno(), output.fileno())
            outcome = _outcome(function, given, options)
            for output in (sys.stdout, sys.stderr):
                output.flush()
            calls.send(outcome)


def _outcome(function: Callable[..., object], given: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, bool]:
    """(the exit code that a call would give as a command, whether it was refused); says what went wrong."""
    try:
        function(*given, **options)
        return 0, False
    except (InputError, DivergedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1, isinstance(error, InputError)
    except Preempted as stopped:
        print(stopped)
        return stopped.exit_code, False
    except Exception:
        traceback.print_exc()
    return 1, False


def _stop_with_the_parent() -> None:
    """Sends this process SIGTERM when the parent's end of its stdin closes: a killed parent cannot send it."""
    # Not sys.stdin: its lock, held by a daemon thread, is a fatal error at the interpreter's exit.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    command.execute(main, takes_arguments=True)
