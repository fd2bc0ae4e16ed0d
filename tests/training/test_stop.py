"""A run's stop on signals and notices, without a run."""

import os
import signal

import pytest

from tfbigbatch.errors import Preempted
from tfbigbatch.training.stop import Stop
from tfbigbatch.utils.signals import StopRequest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_stops_after_the_update(number):
    saved, request = [], StopRequest()
    stop = Stop(request, saved.append)
    with request.handling():
        stop.check(7)
        os.kill(os.getpid(), number)
        with pytest.raises(Preempted, match="stopped on request after step 7, and saved"):
            stop.check(7, agrees=False)
    assert saved == [7]


def test_a_warning_and_then_the_signal_itself_do_not_interrupt_the_saving():
    with StopRequest().handling():
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_the_workers_of_a_cluster_agree():
    request, saved, asked = StopRequest(), [], []

    def agree(wanted):
        asked.append(wanted)
        return wanted

    stop = Stop(request, saved.append, agree)
    stop.check(7, saves=False)
    request.request("a notice came")
    stop.check(8, agrees=False)
    assert asked == [False]
    with pytest.raises(Preempted, match="stopped since a notice came, after step 8, and saved"):
        stop.check(8)
    assert asked == [False, True] and saved == [8]
    # What the preparation of a cluster has noted.
    with pytest.raises(Preempted, match="at step 8, before a step was made; the same command"):
        stop.check(8, saves=False)
    assert saved == [8]
