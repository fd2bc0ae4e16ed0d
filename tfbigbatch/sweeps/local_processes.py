"""A call in a new process of this machine: python -m tfbigbatch.sweeps.local_processes.

A training run needs a fresh interpreter with TensorFlow's own settings, a log file, and SIGTERM with the time to save a
checkpoint, none of which a worker of `concurrent.futures.ProcessPoolExecutor` can have.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from tfbigbatch.utils import command
from tfbigbatch.utils.files import writing_errors


def start(call: Callable[[], object], log: str, threads: int) -> subprocess.Popen[bytes]:
    """Starts a process that runs a call, which is pickled; SIGTERM stops it, and it gets one where this one is killed.

    Args:
      call: its result is lost.
      log: path of the file that takes the output, at its end.
      threads: of TensorFlow, in each of its two pools.

    Raises:
      ValueError: the log cannot be written.
    """
    environment = {
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    with writing_errors(log):
        os.makedirs(os.path.dirname(log), exist_ok=True)
        file = open(log, "ab")
    with file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tfbigbatch.sweeps.local_processes"],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env=environment,
            # The terminal's Ctrl-C then reaches this process alone, which passes it on as one SIGTERM.
            start_new_session=True,
        )
    assert process.stdin is not None
    # It stays open for as long as this process lives.
    with contextlib.suppress(BrokenPipeError):  # It may have ended; its log says why.
        process.stdin.write(pickle.dumps(call))
    return process


def main(unused: list[str]) -> None:
    """Runs the call of this process's stdin, which stays open for as long as the parent lives."""
    call = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    call()


def _stop_with_the_parent() -> None:
    """Sends this process SIGTERM when the parent's end of the pipe closes: a killed parent cannot send it."""
    # Not sys.stdin: its lock, held by a daemon thread, is a fatal error at the interpreter's exit.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    command.execute(main)
