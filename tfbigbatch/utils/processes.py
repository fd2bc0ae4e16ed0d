"""Many short tasks in a pool of processes, for the preparation of data, with one progress bar."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tfbigbatch.errors import InputError, Preempted, missing_extra
from tfbigbatch.utils.signals import collecting_signals

_POLL = 0.2  # seconds


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
    shown = 0
    try:
        with pool:
            running = {pool.submit(_call, function, task): task for task in tasks}
            try:
                while running and not received:
                    ready, _ = concurrent.futures.wait(running, _POLL, concurrent.futures.FIRST_COMPLETED)
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
