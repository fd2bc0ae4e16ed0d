"""tools/soak.py's samples of a process, and the growth that it fits to them."""

import os
import subprocess
import sys

import pytest

from tools import soak

psutil = pytest.importorskip("psutil")


def test_samples_of_this_process():
    process = psutil.Process()
    (first,) = soak.sample(process, 0.0)
    with open(os.devnull), open(os.devnull):
        held = bytearray(64 << 20)
        held[::4096] = b"x" * len(held[::4096])
        (second,) = soak.sample(process, 0.0)
    assert second.files - first.files == 2 and second.memory - first.memory > 32 << 20
    assert first.memory > 1 << 20 and soak.slopes([first, second]) is None


def test_a_process_that_has_ended_has_no_sample():
    child = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(child.pid)
    child.wait()
    assert soak.sample(process, 0.0) == []


def test_slopes_leave_the_start_out():
    samples = [soak.Sample(0.0, 0, 0), *(soak.Sample(float(t), 1000 + 5 * t, 7) for t in range(10, 20))]
    assert soak.slopes(samples, after=5.0) == pytest.approx((5.0, 0.0))
