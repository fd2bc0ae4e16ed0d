"""Executors for the candidates of `tune`: processes of this machine, this process, Slurm's jobs, or anyone's."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import cloudpickle

from tfbigbatch.errors import InputError, Preempted, first_line, missing_extra
from tfbigbatch.sweeps.local_processes import LocalProcesses
from tfbigbatch.utils import folder_lock

_PROCESSES = 2
_JOBS = 64
_POLL = 1.0  # seconds
# Seconds: that calls elsewhere have to save and end where the search is stopped, and those of a lost worker.
_GRACE, _SAVING = 300.0, 60.0


class Here(concurrent.futures.Executor):
    """Runs each call at once, in this process; none after one that a signal stopped."""

    def __init__(self) -> None:
        self._stopped: Preempted | None = None

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **options: Any
    ) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            if self._stopped:
                raise self._stopped
            future.set_result(function(*arguments, **options))
        except Exception as error:
            self._stopped = error if isinstance(error, Preempted) else None
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets go of the runs that are paused in memory."""
        # With TensorFlow, which only a run imports.
        if paused := sys.modules.get("tfbigbatch.training.paused"):
            paused.RUNS.forget()


class Jobs(concurrent.futures.Executor):
    """Runs calls as jobs of submitit, which are no futures of `concurrent.futures`.

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
        """Waits for the jobs; or cancels those that have not begun."""
        for job in list(self._jobs) if cancel_futures else ():
            if not job.done() and job.state != "RUNNING":
                job.cancel(check=False)
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


class Elsewhere(concurrent.futures.Executor):
    """Runs calls in an executor of the user, which stays open: a Dask cluster, jobs of Slurm, a pool of processes.

    A worker makes its calls in turn, each in a process of its own with the log MODEL_DIR.log, as `LocalProcesses`: in a
    worker's thread a run has neither signals nor Python's random numbers for itself. A call has no result. A worker
    that was told to stop is lost; a search that is stopped tells all calls by a file, since no two executors have
    another way in common.

    Args:
      executor: any of `concurrent.futures`, or one with its `submit`.
      folder: that its workers see.
    """

    def __init__(self, executor: concurrent.futures.Executor, folder: str) -> None:
        self._executor = executor
        self._stop = os.path.join(folder, f"stop-{uuid.uuid4().hex}")
        self._left: dict[concurrent.futures.Future[Any], concurrent.futures.Future[Any]] = {}

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **options: Any
    ) -> concurrent.futures.Future[Any]:
        # Opaque, and never the same twice: Dask would give the outcome of the first call.
        call, model_dir = cloudpickle.dumps((function, arguments, options, uuid.uuid4())), options["model_dir"]
        try:
            theirs = self._executor.submit(_in_a_process, call, model_dir, self._stop)
        except Exception as error:
            raise InputError(
                f"tune: the executor takes no call: {type(error).__name__}: {first_line(error)}. Give a new one; the "
                "same search continues where it is."
            ) from None
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._left[future] = theirs
        theirs.add_done_callback(functools.partial(self._ended, future, model_dir))
        return future

    def _ended(
        self, future: concurrent.futures.Future[Any], model_dir: str, theirs: concurrent.futures.Future[Any]
    ) -> None:
        error: BaseException | None
        try:
            error = theirs.result()
        except concurrent.futures.CancelledError:
            error = RuntimeError("its call was cancelled")
        except BaseException as raised:
            # A pool's worker reports Ctrl-C too.
            error = raised if isinstance(raised, Exception) else RuntimeError(type(raised).__name__)
        for folder in (os.path.dirname(model_dir), model_dir):
            # NFS then asks its server again, instead of remembering that there was nothing.
            with contextlib.suppress(OSError):
                os.chmod(folder, os.stat(folder).st_mode)
        if error is None and not os.path.exists(model_dir):
            error = InputError(
                f"a worker trained it, and {model_dir} is not there. All workers and this process must see the folder "
                "of the search: give one that they share."
            )
        elif isinstance(error, Preempted) and not os.path.exists(self._stop):
            error = RuntimeError("its worker was told to stop, and saved it")
        self._left.pop(future, None)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the calls; with `cancel_futures` they save and end first. The executor stays open."""
        left = list(self._left)
        if cancel_futures and left:
            with open(self._stop, "w", encoding="utf-8"):
                pass
        if isinstance(self._executor, Jobs):
            self._executor.shutdown(wait=False, cancel_futures=cancel_futures)
        if wait and left:
            _, slow = concurrent.futures.wait(left, _GRACE if cancel_futures else None)
            for theirs in list(self._left.values()):
                theirs.cancel()
            if not slow:
                with contextlib.suppress(OSError):
                    os.remove(self._stop)


_turn = threading.Lock()


def _in_a_process(call: bytes, model_dir: str, stop: str) -> BaseException | None:
    """Makes a call in a process of the worker's; returns the error, of a type that any executor can carry."""
    with _turn, LocalProcesses(1) as processes:
        if os.path.exists(stop):
            return Preempted("stopped on request")
        _wait_for_the_last_writer(model_dir)
        future = processes.submit(_unpickled, call, model_dir=model_dir)
        try:
            while not future.done():
                concurrent.futures.wait([future], _POLL)
                if os.path.exists(stop):
                    processes.shutdown(wait=False, cancel_futures=True)
        except BaseException:
            # Ctrl-C, or submitit before the end of a job's time.
            processes.shutdown(wait=False, cancel_futures=True)
            raise
        return future.exception()


def _unpickled(call: bytes, *, model_dir: str) -> None:
    function, arguments, options, _ = pickle.loads(call)
    function(*arguments, **options)


def _wait_for_the_last_writer(model_dir: str) -> None:
    """Waits while the process of a worker that was lost still saves the run."""
    end = time.monotonic() + _SAVING
    while os.path.exists(os.path.join(model_dir, folder_lock.NAME)) and time.monotonic() < end:
        with contextlib.suppress(InputError), folder_lock.locked(model_dir, str):
            break


def as_executor(given: Any, folder: str) -> tuple[concurrent.futures.Executor, int]:
    """(executor, calls at once) of what the user gave.

    Args:
      given: an executor, or a Dask client; 'here'; 'slurm' or 'local' (submitit's); a number of processes of this
        machine; or None: two, or this one where there is a GPU, whose memory one process takes.
      folder: of the search, which the workers see.

    Raises:
      ValueError: it is something else, submitit is not installed, or there is no Slurm.
    """
    if given is None:
        given = "here" if os.path.exists("/dev/nvidiactl") else _PROCESSES
    if callable(getattr(given, "get_executor", None)):
        given = given.get_executor()
    if isinstance(given, concurrent.futures.Executor):
        return Elsewhere(given, folder), _at_once(given)
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
        try:
            made = submitit.AutoExecutor(folder=os.path.join(folder, "jobs"), cluster=given)
        except RuntimeError as error:
            raise InputError(f"tune: executor={given!r}: {error}") from None
        # Until the trainer has saved: submitit's default is 5 minutes in all.
        made.update_parameters(timeout_min=24 * 60)
        most = _JOBS if given == "slurm" else _PROCESSES
        return Elsewhere(Jobs(made, most), folder), most
    if callable(getattr(given, "submit", None)) and type(given).__module__.startswith("submitit"):
        return Elsewhere(Jobs(given, _JOBS), folder), _JOBS
    raise InputError(
        f"tune: executor={given!r}; expected a concurrent.futures.Executor, a Dask client, a number of processes, "
        "'here', 'slurm', or an executor of submitit."
    )


def _at_once(executor: Any) -> int:
    """Calls at once as far as an executor tells, for the expected time; of Dask's, one for each worker."""
    if most := getattr(executor, "_max_workers", 0):
        return int(most)
    client = getattr(executor, "_client", None)
    return max(1, len(client.nthreads())) if client else 1
