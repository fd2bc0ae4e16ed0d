"""The process of one job, as `processes.run_jobs` starts it: python -m tfbigbatch.utils.job_process.

Stdin holds the job, pickled: (function, keyword arguments). It then stays open for as long as the parent lives.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading

from tfbigbatch.utils import command


def main(unused: list[str]) -> None:
    """Runs the job of this process's stdin."""
    function, arguments = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    function(**arguments)


def _stop_with_the_parent() -> None:
    """Sends this process SIGTERM when the parent's end of the pipe closes: a killed parent cannot send it."""
    # Not sys.stdin: its lock, held by a daemon thread, is a fatal error at the interpreter's exit.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    command.execute(main)
