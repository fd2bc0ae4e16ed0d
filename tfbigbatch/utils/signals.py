"""SIGTERM and Ctrl-C, where they are neither a plain end nor StopOnSignal's."""

import contextlib
import os
import signal
import threading


@contextlib.contextmanager
def counting_signals():
    """A list that grows by each SIGINT and SIGTERM, in place of what they do otherwise."""
    received = []
    with _handling((signal.SIGINT, signal.SIGTERM), lambda number, frame: received.append(number)):
        yield received


def ending_at_once(exit_code):
    """A context in which SIGTERM, Ctrl-C and SIGUSR1 end the process with one line and `exit_code`.

    For what a run does before and after its updates, as reading its data: nothing of it is to be saved. Where updates
    are made, `training.callbacks.StopOnSignal` takes the signals over.
    """

    def end(number, frame):
        # Not through `print`, which the signal may have interrupted; and no exception: any library would catch it.
        os.write(1, b"stopped on request, with nothing new to save; the same command goes on.\n")
        os._exit(exit_code)

    return _handling((signal.SIGINT, signal.SIGTERM, signal.SIGUSR1), end)


@contextlib.contextmanager
def _handling(numbers, handler):
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
