import os
import subprocess
import sys

import pytest

from tfbigbatch.cluster.vitals import Sample, Vitals, slope


def test_of_this_process():
    vitals = Vitals(os.getpid())
    vitals.look()
    with open(os.devnull), open(os.devnull):
        held = bytearray(64 << 20)
        held[::4096] = b"x" * len(held[::4096])
        vitals.look()
    first, second = vitals.samples
    assert second.files - first.files == 2 and second.memory - first.memory > 32 << 20
    assert first.memory > 1 << 20 and vitals.slopes() is None


def test_of_a_process_that_has_ended():
    process = subprocess.Popen([sys.executable, "-c", ""])
    vitals = Vitals(process.pid)
    process.wait()
    vitals.look()
    assert vitals.samples == []


def test_slopes_leave_the_start_out():
    vitals = Vitals(1)
    vitals.samples = [Sample(0.0, 0, 0), *(Sample(float(t), 1000 + 5 * t, 7) for t in range(10, 20))]
    assert vitals.slopes(after=5.0) == pytest.approx((5.0, 0.0))
    assert slope([2.0, 2.0], [1.0, 3.0]) == 0.0
