"""Signals in processes that have nothing to save."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tfbigbatch.utils.signals import collecting_signals, handling_signals, reinstall_handler


def test_signals_are_collected_and_then_do_again_what_they_did():
    before = signal.getsignal(signal.SIGTERM)
    with collecting_signals() as received:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert received == [signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_signal_may_interrupt():
    with pytest.raises(KeyboardInterrupt), collecting_signals(interrupt_on_second=True) as received:
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_ends_the_process_with_one_line_and_its_code(name):
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
            import os, signal, time
            from tfbigbatch.utils.signals import exiting_on_signals
            with exiting_on_signals(7):
                try:
                    os.kill(os.getpid(), signal.{name})
                    time.sleep(10)
                except BaseException:
                    print("caught")
        """),
        ],
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (7, "")
    assert ended.stdout == "stopped on request, with nothing new to save; the same command resumes.\n"


def test_a_handler_that_a_library_replaced_is_put_back():
    received = []
    with handling_signals([signal.SIGTERM], lambda number, frame: received.append(number)):
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
        libc.signal(signal.SIGTERM, 1)  # SIG_IGN, as a library in C would put its own.
        os.kill(os.getpid(), signal.SIGTERM)
        assert not received
        reinstall_handler(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
