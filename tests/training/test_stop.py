"""A run's stop on signals and notices, without a run."""

import os
import signal

import pytest

from tfbigbatch.errors import Preempted
from tfbigbatch.training.stop import Stop
from tfbigbatch.utils.signals import StopRequest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_stops_after_the_update_and_between_two_batches_of_an_evaluation(number):
    saved, request = [], StopRequest()
    stop = Stop(request, saved.append)
    with request.handling():
        stop.in_evaluation(7, 3)
        assert not stop.is_agreed()
        os.kill(os.getpid(), number)
        assert stop.is_agreed(is_row=False)
        for ending in (lambda: stop.now(7), lambda: stop.in_evaluation(7, 3)):
            with pytest.raises(Preempted, match="stopped on request after step 7, and saved"):
                ending()
    assert saved == [7, 7]


def test_a_warning_and_then_the_signal_itself_do_not_interrupt_the_saving():
    with StopRequest().handling():
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_the_workers_of_a_cluster_agree_at_rows_and_at_every_tenth_batch():
    request, saved, asked = StopRequest(), [], []

    def agree(wanted):
        asked.append(wanted)
        return wanted

    stop = Stop(request, saved.append, agree)
    stop.before_first_step(7)
    request.request("a notice came")
    assert not stop.is_agreed(is_row=False)
    for batch in range(11, 20):
        stop.in_evaluation(8, batch)
    assert asked == [False] and stop.is_agreed()
    with pytest.raises(Preempted, match="stopped since a notice came, after step 8, and saved"):
        stop.in_evaluation(8, 20)
    assert asked == [False, True, True] and saved == [8]
    # What the preparation of a cluster has noted; a process that is alone was ended by the signal.
    with pytest.raises(Preempted, match="at step 8, before a step was made, with nothing new to save"):
        stop.before_first_step(8)
    Stop(request, saved.append).before_first_step(8)
    assert saved == [8]
