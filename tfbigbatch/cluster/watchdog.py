"""Lost workers: a watchdog ends one that makes no progress, and errors about another one become WorkerLost."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tfbigbatch.errors import WorkerLost


class Watchdog:
    """Ends the process with WorkerLost's exit code when there was no heartbeat for `timeout` seconds.

    Some waits of TensorFlow's cluster have no timeout: for a worker that never started, or for one that hangs. Python
    cannot interrupt them, so nothing is cleaned up; checkpoints are written atomically. TensorFlow holds Python's lock
    in some of these waits, such as the one for all workers at the start: there SIGALRM ends the process a little
    later, without a message.

    Args:
      timeout: seconds; 0 disables the watchdog.
      end: function of the exit code that ends the process; None for os._exit, with SIGALRM as the fallback.
    """

    def __init__(self, timeout: float, end: Callable[[int], object] | None = None) -> None:
        self._timeout = timeout
        self._alarm = 1.1 * timeout + 1.0 if timeout and end is None else 0.0
        self._end = end or os._exit
        self._ended = threading.Event()
        self._progress, self._since = "the start", time.monotonic()

    def heartbeat(self, progress: str) -> None:
        """Restarts the timeout; `progress` names what was done, such as 'step 300', for the error message."""
        self._progress, self._since = progress, time.monotonic()
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, self._alarm)

    def __enter__(self) -> Watchdog:
        self.heartbeat("the start")
        if self._timeout:
            threading.Thread(target=self._watch, daemon=True, name="watchdog").start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended.set()
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _watch(self) -> None:
        while not self._ended.wait(max(0.05, self._since + self._timeout - time.monotonic())):
            if time.monotonic() - self._since >= self._timeout:
                print(
                    f"error: no progress for {self._timeout:g} seconds after {self._progress}. Another worker or the "
                    "storage may be down or stuck: start all workers again, and the run resumes from its newest "
                    "checkpoint. If it was only slow, raise --stall_timeout.",
                    file=sys.stderr,
                    flush=True,
                )
                self._end(WorkerLost.exit_code)
                return


# Unavailable: the connection broke. Aborted, Cancelled: the collective operations of a cluster that lost a worker.
# DeadlineExceeded: no answer. Internal: the coordination service's own.
_NAMES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError"}


@contextlib.contextmanager
def worker_loss() -> Iterator[None]:
    """A context that turns TensorFlow's errors about a lost worker into WorkerLost.

    Without TF_CONFIG, errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        names = {cls.__name__ for cls in type(error).__mro__}
        if not os.environ.get("TF_CONFIG") or not names & _NAMES:
            raise
        message = (getattr(error, "message", None) or str(error)).strip().splitlines()
        raise WorkerLost(
            f"another worker died or does not answer ({type(error).__name__}: {message[0] if message else ''}). "
            "Start all workers again: the run resumes from its newest checkpoint."
        ) from None
