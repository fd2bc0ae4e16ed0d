"""A limit to every wait: a worker that nothing happens to for too long ends itself, and can be started again."""

import os
import signal
import sys
import threading
import time

from tfbigbatch.errors import WorkerLost


class Watchdog:
    """Ends the process, with the exit code of WorkerLost, where `alive` is not called for `timeout` seconds.

    Some waits of a cluster have no limit of their own: for workers that were never started, or for one that is
    alive and stuck. Python cannot interrupt them, so nothing is cleaned up; checkpoints are written whole or not
    at all. Where TensorFlow waits without letting any other thread of Python run, as it does for workers at the start,
    the system's alarm ends the process a little later: by the signal SIGALRM, and without a word.

    Args:
      timeout: seconds; 0 for never.
      end: None, or a function of the exit code that ends the process in place of os._exit; there is no alarm then.
    """

    def __init__(self, timeout, end=None):
        self._timeout = timeout
        self._alarm = 1.1 * timeout + 1.0 if timeout and end is None else 0.0
        self._end = end or os._exit
        self._ended = threading.Event()
        self._after, self._since = "the start", time.monotonic()

    def alive(self, after):
        """Says that something was done, in words: 'update 300'."""
        self._after, self._since = after, time.monotonic()
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, self._alarm)

    def __enter__(self):
        self.alive("the start")
        if self._timeout:
            threading.Thread(target=self._watch, daemon=True, name="watchdog").start()
        return self

    def __exit__(self, *unused):
        self._ended.set()
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _watch(self):
        while not self._ended.wait(max(0.05, self._since + self._timeout - time.monotonic())):
            if time.monotonic() - self._since >= self._timeout:
                print(
                    f"error: nothing has happened for {self._timeout:g} seconds after {self._after}. Another worker "
                    "or the storage may be gone or stuck: start all workers again, and the run goes on from its newest "
                    "checkpoint. If it was only slow, raise --stall_timeout.",
                    file=sys.stderr,
                    flush=True,
                )
                self._end(WorkerLost.exit_code)
                return
