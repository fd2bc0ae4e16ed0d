"""From what TensorFlow raises when another worker is gone to one error that says what to do."""

import contextlib
import os

from tfbigbatch.errors import WorkerLost

# Unavailable: the connection broke. Aborted, Cancelled: the collective operations of a cluster that lost a worker.
# DeadlineExceeded: no answer. Internal: the coordination service's own.
_NAMES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError"}


@contextlib.contextmanager
def worker_loss():
    """Raises WorkerLost in place of what TensorFlow raises in a cluster when a worker is gone.

    Of a process without TF_CONFIG, errors pass as they are.
    """
    try:
        yield
    except Exception as error:
        names = {cls.__name__ for cls in type(error).__mro__}
        if not os.environ.get("TF_CONFIG") or not names & _NAMES:
            raise
        message = (getattr(error, "message", None) or str(error)).strip().splitlines()
        raise WorkerLost(
            f"another worker is gone or does not answer ({type(error).__name__}: {message[0] if message else ''}). "
            "Start all workers again: the run goes on from its newest checkpoint."
        ) from None
