"""One function over many tasks, in this process or in several, until they are done or a signal comes."""

import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading

from tfbigbatch.errors import InputError, Preempted, missing_extra

_POLL = 0.2  # seconds
_PREEMPTED = "stopped on request; what is finished stays, and the same command goes on from there."


class _Stopped(Exception):
    """A task was told to stop."""


def run(function, tasks, *, processes, ended, progress):
    """Calls function(task, tick) for each task.

    `function` calls tick() as often as it likes: once for each unit of the progress bar. tick raises where
    the work is to stop; then the function cleans up, if it must, and lets the exception pass.

    Args:
      function: importable by its module and name, where there is more than one process.
      tasks: list, each task pickles.
      processes: how many at once; 1 for this one.
      ended: function of (task, result), called in this process as each ends.
      progress: the progress bar, of `bar`.

    Raises:
      Preempted: SIGINT or SIGTERM came.
      ValueError: a process died; or what the function raised.
    """
    with _signals() as received:
        try:
            if processes == 1 or len(tasks) < 2:
                _here(function, tasks, ended, progress, received)
            else:
                _in_processes(function, tasks, min(processes, len(tasks)), ended, progress, received)
        except _Stopped:
            raise Preempted(_PREEMPTED) from None


def bar(total, done, unit):
    """A progress bar on stderr: `total` units, of which `done` were so before."""
    try:
        from tqdm import tqdm
    except ImportError:
        raise missing_extra("tqdm", "models") from None
    # In a log file each renewal is a line's worth of text.
    return tqdm(total=total, initial=done, unit=unit, mininterval=0.5 if sys.stderr.isatty() else 60)


def _here(function, tasks, ended, progress, received):
    def tick():
        progress.update()
        if received:
            raise _Stopped

    for task in tasks:
        if received:
            raise _Stopped
        ended(task, function(task, tick))


def _in_processes(function, tasks, processes, ended, progress, received):
    # Spawned: a fork of a process with threads, as TensorFlow's, may hang.
    context = multiprocessing.get_context("spawn")
    count, stop = context.Value("q", 0), context.Event()
    pool = concurrent.futures.ProcessPoolExecutor(
        processes, mp_context=context, initializer=_started, initargs=(count, stop)
    )
    waiting, running, shown = list(reversed(tasks)), {}, 0
    try:
        with pool:
            try:
                while (waiting or running) and not received:
                    # One more than there are processes: none waits for this one, and not all tasks are pickled at once.
                    while waiting and len(running) <= processes:
                        task = waiting.pop()
                        running[pool.submit(_call, function, task)] = task
                    ready, _ = concurrent.futures.wait(running, _POLL, concurrent.futures.FIRST_COMPLETED)
                    now = count.value
                    progress.update(now - shown)
                    shown = now
                    for future in ready:
                        ended(running.pop(future), future.result())
            finally:
                # Also where something failed here: the pool waits for what is running.
                stop.set()
                for future in running:
                    future.cancel()
    except concurrent.futures.process.BrokenProcessPool:
        if not received:
            raise InputError(
                "A worker process died; perhaps memory ran out (then pass fewer --processes). What is finished "
                "stays, and the same command goes on from there."
            ) from None
    if received:
        raise _Stopped


def _started(count, stop):
    """What a worker does first."""
    global _tick  # a worker is a process of its own, and its tasks come later
    # Ctrl-C in a terminal goes to all processes; the first one tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where the first process is killed, nothing else would end this one.
    sentinel = multiprocessing.parent_process().sentinel
    threading.Thread(
        target=lambda: (multiprocessing.connection.wait([sentinel]), os._exit(1)), name="parent", daemon=True
    ).start()

    def tick():
        with count.get_lock():
            count.value += 1
        if stop.is_set():
            raise _Stopped

    _tick = tick


def _call(function, task):
    return function(task, _tick)


@contextlib.contextmanager
def _signals():
    """A list that grows by a SIGINT or SIGTERM, in place of what they do otherwise; a second one interrupts."""
    received, before = [], {}

    def receive(number, frame):
        if received:
            raise KeyboardInterrupt
        received.append(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, receive)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
