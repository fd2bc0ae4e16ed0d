"""SIGTERM and Ctrl-C, counted by a process that passes them on to others."""

import contextlib
import signal
import threading


@contextlib.contextmanager
def counting_signals():
    """A list that grows by each SIGINT and SIGTERM, in place of what they do otherwise."""
    received, before = [], {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, frame: received.append(number))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
