"""Signals in processes that have nothing to save."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tfbigbatch.utils.signals import counting_signals, ending_at_once


def test_signals_are_counted_and_then_do_again_what_they_did():
    before = signal.getsignal(signal.SIGTERM)
    with counting_signals() as received:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert received == [signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_ends_the_process_with_one_line_and_its_code(name):
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
            import os, signal, time
            from tfbigbatch.utils.signals import ending_at_once
            with ending_at_once(7):
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
    assert ended.stdout == "stopped on request, with nothing new to save; the same command goes on.\n"


def test_afterwards_the_signals_are_as_before():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]
    with ending_at_once(7):
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)] == before
