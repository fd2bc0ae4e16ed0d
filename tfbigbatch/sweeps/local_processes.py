"""An executor that runs each call in a new process of this machine: python -m tfbigbatch.sweeps.local_processes.

A training run needs a fresh interpreter with TensorFlow's own settings, a log file, and SIGTERM with the time to save a
checkpoint, none of which a worker of `concurrent.futures.ProcessPoolExecutor` can have.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import Preempted
from tfbigbatch.utils import command
from tfbigbatch.utils.files import writing_errors
from tfbigbatch.utils.processes import cores

_LOG_LINES = 8


class LocalProcesses(concurrent.futures.Executor):
    """Runs calls with an argument `model_dir`, each in a process with the log MODEL_DIR.log and its part of the cores.

    A call has no result. Its process gets SIGTERM where this one is killed.

    Args:
      processes: how many at once.
    """

    def __init__(self, processes: int) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(processes)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._told: set[subprocess.Popen[bytes]] = set()
        threads = str(max(1, cores() // processes))
        self._environment = {
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
            for process in self._running - self._told:
                process.terminate()
                self._told.add(process)
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _run(self, call: tuple[Any, ...], log: str) -> None:
        """Runs a call until its process has ended; raises Preempted where a signal stopped it."""
        with writing_errors(log):
            os.makedirs(os.path.dirname(log), exist_ok=True)
            file = open(log, "ab")
        with file:
            start = file.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "tfbigbatch.sweeps.local_processes"],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=self._environment,
                # The terminal's Ctrl-C then reaches this process alone, which passes it on as one SIGTERM.
                start_new_session=True,
            )
        self._running.add(process)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:  # It may have ended; its log says why.
            stdin.write(pickle.dumps(call))
            stdin.flush()
            process.wait()
        code = process.wait()
        self._running.discard(process)
        if code in (Preempted.exit_code, -signal.SIGTERM):
            raise Preempted("stopped on request")
        if code:
            with open(log, "rb") as written:
                written.seek(start)
                last = written.read().decode(errors="replace").rstrip().splitlines()[-_LOG_LINES:]
            raise RuntimeError("\n    ".join([f"FAILED with exit code {code}; see {log}", *last]))


def main(unused: list[str]) -> None:
    """Runs the call of this process's stdin, which stays open for as long as the parent lives."""
    function, arguments, options = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    function(*arguments, **options)


def _stop_with_the_parent() -> None:
    """Sends this process SIGTERM when the parent's end of the pipe closes: a killed parent cannot send it."""
    # Not sys.stdin: its lock, held by a daemon thread, is a fatal error at the interpreter's exit.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    command.execute(main)
