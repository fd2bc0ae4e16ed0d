"""Work in several processes: many small tasks in a pool, or one process for each job.

`run_tasks` is for data preparation: short tasks that share the workers' start-up, return results and count towards one
progress bar. `run_jobs` is for training runs: each needs a fresh interpreter with TensorFlow's own settings, a log
file, and SIGTERM with the time to save a checkpoint, none of which an executor's worker can have.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import glob
import json
import multiprocessing
import multiprocessing.connection
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from tfbigbatch.errors import InputError, Preempted, missing_extra
from tfbigbatch.utils.files import writing_errors
from tfbigbatch.utils.signals import collecting_signals

_TASKS_POLL, _JOBS_POLL = 0.2, 0.1  # seconds
MESSAGE_BYTES = 1024
"""The most of a message between this process and `job_server`."""


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Stopped(Exception):
    """Raised in a task that has to stop."""


# In a worker of the pool: counts a unit of progress.
_tick: Callable[[], None]


def run_tasks(
    function: Callable[[Any, Callable[[], None]], Any],
    tasks: Sequence[Any],
    *,
    processes: int,
    ended: Callable[[Any, Any], object],
    progress: Any,
) -> None:
    """Calls function(task, tick) for each task, in this process or in a pool.

    `function` calls tick() once for each unit of the progress bar. tick raises when the work has to stop: `function`
    then cleans up, if it must, and lets the exception pass.

    Args:
      function: importable by its module and name, if `processes` > 1.
      tasks: picklable, if `processes` > 1.
      processes: how many at once; 1 for this one.
      ended: function of (task, result), called in this process as each ends.
      progress: the bar, from `progress_bar`.

    Raises:
      Preempted: SIGINT or SIGTERM was received.
      ValueError: a process died, or `function` raised it.
    """
    with collecting_signals(interrupt_on_second=True) as received:
        try:
            if processes == 1 or len(tasks) < 2:
                _tasks_here(function, tasks, ended, progress, received)
            else:
                _tasks_in_pool(function, tasks, min(processes, len(tasks)), ended, progress, received)
        except _Stopped:
            raise Preempted("stopped on request; finished work is kept, and the same command resumes.") from None


def progress_bar(total: int | None, done: int, unit: str) -> Any:
    """A tqdm bar on stderr for `total` units, `done` of them finished before."""
    try:
        from tqdm import tqdm
    except ImportError:
        raise missing_extra("tqdm", "models") from None
    # In a log file each renewal is a line's worth of text.
    return tqdm(total=total, initial=done, unit=unit, mininterval=0.5 if sys.stderr.isatty() else 60)


def _tasks_here(function: Callable, tasks: Sequence, ended: Callable, progress: Any, received: list[int]) -> None:
    def tick() -> None:
        progress.update()
        if received:
            raise _Stopped

    for task in tasks:
        if received:
            raise _Stopped
        ended(task, function(task, tick))


def _tasks_in_pool(
    function: Callable, tasks: Sequence, processes: int, ended: Callable, progress: Any, received: list[int]
) -> None:
    # Spawned: a fork of a process with threads, as TensorFlow's, may hang.
    context = multiprocessing.get_context("spawn")
    count, stop = context.Value("q", 0), context.Event()
    pool = concurrent.futures.ProcessPoolExecutor(
        processes, mp_context=context, initializer=_start_worker, initargs=(count, stop)
    )
    waiting, shown = list(reversed(tasks)), 0
    running: dict[concurrent.futures.Future, Any] = {}
    try:
        with pool:
            try:
                while (waiting or running) and not received:
                    # One more than there are processes keeps all busy without pickling every task at once.
                    while waiting and len(running) <= processes:
                        task = waiting.pop()
                        running[pool.submit(_call, function, task)] = task
                    ready, _ = concurrent.futures.wait(running, _TASKS_POLL, concurrent.futures.FIRST_COMPLETED)
                    now = count.value
                    progress.update(now - shown)
                    shown = now
                    for future in ready:
                        ended(running.pop(future), future.result())
            finally:
                # Also after an error here: the pool waits for the running tasks.
                stop.set()
                for future in running:
                    future.cancel()
    except concurrent.futures.process.BrokenProcessPool:
        if not received:
            raise InputError(
                "A worker process died; perhaps memory ran out (then pass fewer --processes). Finished work is "
                "kept, and the same command resumes."
            ) from None
    if received:
        raise _Stopped


def _start_worker(count: Any, stop: Any) -> None:
    """The pool's initializer."""
    global _tick  # a worker is a process of its own, and its tasks come later
    # Ctrl-C in a terminal goes to all processes; the parent stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A parent that is killed cannot stop its workers: each watches it.
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    threading.Thread(
        target=lambda: (multiprocessing.connection.wait([sentinel]), os._exit(1)), name="parent", daemon=True
    ).start()

    def tick() -> None:
        with count.get_lock():
            count.value += 1
        if stop.is_set():
            raise _Stopped

    _tick = tick


def _call(function: Callable, task: Any) -> Any:
    return function(task, _tick)


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """A call in a process of its own.

    Attributes:
      name: for messages.
      function: importable by its module and name.
      arguments: picklable keyword arguments.
      log: path of the file that stdout and stderr are appended to.
    """

    name: str
    function: Callable[..., object]
    arguments: dict[str, Any]
    log: str


def forking_refused() -> str:
    """Why jobs cannot be forks of a process that has imported TensorFlow; empty where they can."""
    if sys.platform != "linux":
        return f"{sys.platform} does not fork safely"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if glob.glob("/dev/nvidia[0-9]*") and visible not in ("", "-1"):
        return "a GPU is visible"
    if glob.glob("/dev/accel[0-9]*") or glob.glob("/dev/vfio/[0-9]*"):
        return "a TPU is attached"
    return ""


def run_jobs(
    jobs: Sequence[Job],
    processes: int,
    ended: Callable[[Job, int, str], object],
    fork: bool = False,
    preload: Sequence[str] = (),
) -> None:
    """Runs jobs, at most `processes` at once, each in a process of its own with an equal part of the cores.

    With `fork` the processes are forks of one that has imported TensorFlow, which saves each of them the seconds of
    that import: see `job_server`. A single job gets a new process, and so do all where `forking_refused` says why.

    Ctrl-C or SIGTERM sends the running ones SIGTERM and waits for them; a second one kills them.

    Args:
      jobs: the jobs, in the order in which they start.
      processes: how many at once.
      ended: function of (job, exit code, text it logged), called in this process as each ends.
      fork: whether the processes are forks.
      preload: names of further modules that are imported before the forks.

    Raises:
      Preempted: Ctrl-C or SIGTERM was received.
    """
    waiting: list[Job] = list(jobs)
    running: list[_Child] = []
    environment = _job_environment(processes)
    server = _Server(environment, preload) if fork and len(jobs) > 1 and not forking_refused() else None
    with collecting_signals() as signals:
        try:
            while (waiting and not signals) or running:
                while waiting and not signals and len(running) < processes:
                    running.append(_Child(waiting.pop(0), environment, server))
                time.sleep(_JOBS_POLL)
                if signals:
                    for child in running:
                        child.stop(at_once=len(signals) > 1)
                for child in list(running):
                    code = child.process.poll()
                    if code is not None:
                        running.remove(child)
                        ended(child.job, code, child.logged())
        finally:
            # Children are left only after an error in this process.
            for child in running:
                child.stop()
            for child in running:
                child.process.wait()
            if server:
                server.close()
    if signals:
        raise Preempted("stopped on request; the same command resumes.")


class _Server:
    """The process that forks the jobs: `job_server`."""

    def __init__(self, environment: dict[str, str], preload: Sequence[str]) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tfbigbatch.utils.job_server", str(theirs.fileno()), *preload],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._codes: dict[int, int] = {}
        self.is_lost = False

    def fork(self, stdin: int, log: int) -> int:
        """The process number of a new child; 0 where the server was lost."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._channel, [json.dumps({"fork": True}).encode()], [stdin, log])
        while not self.is_lost:
            message = self._receive()
            if "forked" in message:
                return int(message["forked"])
        return 0

    def code_of(self, pid: int) -> int | None:
        """The exit code of a child; None while it runs. As if killed, where the server was lost."""
        while not self.is_lost and select.select([self._channel], [], [], 0)[0]:
            self._receive()
        return self._codes.get(pid, -signal.SIGKILL if self.is_lost else None)

    def send_signal(self, pid: int, number: int) -> None:
        """Sends a child a signal, if it has not ended."""
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps({"signal": number, "pid": pid}).encode())

    def close(self) -> None:
        """Ends the server; its children have ended."""
        self._channel.close()
        self._process.wait()

    def _receive(self) -> dict[str, int]:
        try:
            content = self._channel.recv(MESSAGE_BYTES)
        except OSError:
            content = b""
        self.is_lost = not content
        message: dict[str, int] = json.loads(content or b"{}")
        if "ended" in message:
            self._codes[message["ended"]] = message["code"]
        return message


class _Forked:
    """A child of the server, with the methods of `subprocess.Popen` that are used."""

    def __init__(self, server: _Server, pid: int, stdin: BinaryIO) -> None:
        self._server = server
        self._pid = pid
        self.stdin = stdin

    def poll(self) -> int | None:
        code = self._server.code_of(self._pid)
        if code is not None and not self.stdin.closed:
            # Where the server was lost, this stops the child.
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
        return code

    def terminate(self) -> None:
        self._server.send_signal(self._pid, signal.SIGTERM)

    def kill(self) -> None:
        self._server.send_signal(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(_JOBS_POLL)
        return code


class _Child:
    """A job's process."""

    def __init__(self, job: Job, environment: dict[str, str], server: _Server | None = None) -> None:
        self.job = job
        self._stopped = False
        with writing_errors(job.log):
            os.makedirs(os.path.dirname(job.log), exist_ok=True)
            log = open(job.log, "ab")
        with log:
            self._start = log.tell()
            # The child inherits the lock with the file and holds it until it ends, whatever happens to us.
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{job.name}: another process works on this run and writes {job.log}. Wait until it has ended, or "
                    "end it; then run the same command again."
                ) from None
            self.process = (server and _forked(server, log)) or subprocess.Popen(
                [sys.executable, "-m", "tfbigbatch.utils.job_process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                # The terminal's Ctrl-C then reaches this process alone, which passes it on as one SIGTERM: a second
                # signal would interrupt the saving.
                start_new_session=True,
            )
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It ended already; its log says why.
            stdin.write(pickle.dumps((job.function, job.arguments)))
            stdin.flush()

    def stop(self, at_once: bool = False) -> None:
        """Sends SIGTERM, only once in several calls; or SIGKILL."""
        if at_once:
            self.process.kill()
        elif not self._stopped:
            self.process.terminate()
        self._stopped = True

    def logged(self) -> str:
        """What this process, not one before it, wrote to the log."""
        with open(self.job.log, "rb") as log:
            log.seek(self._start)
            return log.read().decode(errors="replace")


def _forked(server: _Server, log: BinaryIO) -> _Forked | None:
    """A fork of the server that waits for its job; None where the server was lost."""
    theirs, ours = os.pipe()
    pid = 0 if server.is_lost else server.fork(theirs, log.fileno())
    os.close(theirs)
    if not pid:
        os.close(ours)
        return None
    return _Forked(server, pid, os.fdopen(ours, "wb"))


def _job_environment(processes: int) -> dict[str, str]:
    """This process's environment and import path, with its cores divided by `processes` unless set otherwise."""
    threads = str(max(1, cores() // processes))
    return {
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": threads,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
