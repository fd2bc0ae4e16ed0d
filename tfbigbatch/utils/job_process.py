"""One run in a process of its own, as `processes` starts it: python -m tfbigbatch.utils.job_process.

The job comes pickled on stdin: (function, keyword arguments). Stdin then stays open for as long as the
parent lives.
"""

import os
import pickle
import signal
import sys
import threading

from tfbigbatch.utils import command


def _main(unused):
    function, arguments = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    function(**arguments)


def _stop_with_the_parent():
    """A parent that was killed cannot say so: its end of the pipe closes, and the run saves and stops."""
    # Not sys.stdin: its lock, held by a daemon thread, is a fatal error at the interpreter's exit.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    command.execute(_main)
