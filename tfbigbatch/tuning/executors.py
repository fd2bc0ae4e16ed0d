"""Executors for the candidates of `tune`: processes of this machine, this process, Slurm's jobs, or anyone's."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import InputError, missing_extra
from tfbigbatch.sweeps.local_processes import LocalProcesses

_PROCESSES = 2


class Here(concurrent.futures.Executor):
    """Runs each call at once, in this process."""

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **options: Any
    ) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


class Jobs(concurrent.futures.Executor):
    """Runs calls as jobs of submitit, whose executors return jobs of another kind than futures.

    Args:
      executor: a submitit.Executor.
      most: jobs at once.
    """

    def __init__(self, executor: Any, most: int) -> None:
        self._executor = executor
        self._threads = concurrent.futures.ThreadPoolExecutor(most)
        self._jobs: list[Any] = []

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **options: Any
    ) -> concurrent.futures.Future[Any]:
        def wait() -> Any:
            job = self._executor.submit(function, *arguments, **options)
            self._jobs.append(job)
            return job.result()

        return self._threads.submit(wait)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the jobs, or cancels them: each then continues from its latest checkpoint."""
        for job in self._jobs if cancel_futures else ():
            if not job.done():
                job.cancel()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


def as_executor(given: Any, folder: str) -> tuple[concurrent.futures.Executor, int]:
    """(executor, calls at once) of what the user gave.

    Args:
      given: an executor; 'here'; 'slurm' or 'local' (submitit's); a number of processes of this machine; or None: two,
        or this one where there is a GPU, whose memory one process takes.
      folder: for the logs of jobs.

    Raises:
      ValueError: it is something else, or submitit is not installed.
    """
    if given is None:
        given = "here" if os.path.exists("/dev/nvidiactl") else _PROCESSES
    if isinstance(given, concurrent.futures.Executor):
        return given, int(getattr(given, "_max_workers", 1))
    if isinstance(given, str) and given.isdecimal():
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return LocalProcesses(given, reuses=True), given
    if given == "here":
        return Here(), 1
    if given in ("slurm", "local"):
        try:
            import submitit
        except ImportError:
            raise missing_extra("submitit", "slurm") from None
        made = submitit.AutoExecutor(folder=os.path.join(folder, "jobs"), cluster=given)
        # Until the trainer has saved: submitit's default is 5 minutes in all.
        made.update_parameters(timeout_min=24 * 60)
        return Jobs(made, 64 if given == "slurm" else _PROCESSES), 64 if given == "slurm" else _PROCESSES
    if callable(getattr(given, "submit", None)) and type(given).__module__.startswith("submitit"):
        return Jobs(given, 64), 64
    raise InputError(
        f"tune: executor={given!r}; expected a concurrent.futures.Executor, a number of processes, 'here', 'slurm', or "
        "an executor of submitit."
    )
