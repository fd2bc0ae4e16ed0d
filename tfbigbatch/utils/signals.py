"""SIGTERM, Ctrl-C and SIGUSR1: noted as a request to stop in the training loop, and outside of it an end at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

_TERMINATING = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def handling_signals(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """A context with `handler` for these signals; outside of the main thread, where Python allows none, no change."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def reinstall_handler(number: signal.Signals) -> None:
    """Puts Python's handler of a signal back, where a library in C has replaced it; in the main thread alone."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, signal.getsignal(number) or signal.SIG_DFL)


@contextlib.contextmanager
def collecting_signals(interrupt_on_second: bool = False) -> Iterator[list[int]]:
    """A context with the list of the SIGINT and SIGTERM received in it, which do nothing else.

    Args:
      interrupt_on_second: whether the second one raises KeyboardInterrupt.
    """
    received: list[int] = []

    def collect(number: int, frame: FrameType | None) -> None:
        if received and interrupt_on_second:
            raise KeyboardInterrupt
        received.append(number)

    with handling_signals((signal.SIGINT, signal.SIGTERM), collect):
        yield received


def exiting_on_signals(exit_code: int) -> contextlib.AbstractContextManager[None]:
    """A context in which SIGTERM, Ctrl-C and SIGUSR1 end the process with one line and `exit_code`.

    For the parts of a run that have nothing to save, such as reading its data.
    """

    def end(number: int, frame: FrameType | None) -> None:
        # Not through `print`, which the signal may have interrupted; and no exception: any library would catch it.
        os.write(1, b"stopped on request, with nothing new to save; the same command resumes.\n")
        os._exit(exit_code)

    return handling_signals((signal.SIGINT, signal.SIGTERM, signal.SIGUSR1), end)


class StopRequest:
    """A request to stop: SIGTERM, Ctrl-C or SIGUSR1, noted inside of `handling`, or one of another thread.

    A second SIGTERM or Ctrl-C interrupts at once; SIGUSR1, Slurm's early warning, does not count towards it.

    Attributes:
      requested: whether there was one.
      reason: of it, for a message.
    """

    def __init__(self) -> None:
        self.requested = False
        self.reason = "on request"
        self._terminating = False

    def handling(self) -> contextlib.AbstractContextManager[None]:
        """A context in which signals are noted."""
        return handling_signals((*_TERMINATING, signal.SIGUSR1), self._on_signal)

    def request(self, reason: str) -> None:
        """Requests a stop, from any thread; `reason` is for the message."""
        self.reason = f"since {reason},"
        self.requested = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in _TERMINATING and self._terminating:
            raise KeyboardInterrupt
        self._terminating |= number in _TERMINATING
        self.requested = True
