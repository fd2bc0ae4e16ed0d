"""Converts TensorFlow's errors about a lost worker into WorkerLost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tfbigbatch.errors import WorkerLost

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
