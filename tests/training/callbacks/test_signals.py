"""What the callback StopOnSignal does with signals and notices, without a `fit`."""

import os
import signal

import pytest

from tfbigbatch.errors import Preempted
from tfbigbatch.training.callbacks.watch import StopOnSignal
from tfbigbatch.utils.signals import StopRequest


class Saved:
    """In place of Checkpoints: notes what it was asked."""

    def __init__(self):
        self.asked = []

    def save(self, step):
        self.asked.append(step)


def running(checkpoints, request):
    stop = StopOnSignal(checkpoints, request)
    stop.params, stop.step, stop._epoch_start = {"steps": 100}, 7, 0
    return stop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_stops_after_the_update(number):
    saved, request = Saved(), StopRequest()
    stop = running(saved, request)
    with request.handling():
        stop.on_steps(6, 7, {})
        assert not saved.asked
        os.kill(os.getpid(), number)
        with pytest.raises(Preempted, match="stopped on request after step 7, and saved"):
            stop.on_steps(6, 7, {})
    assert saved.asked == [7]


def test_a_warning_and_then_the_signal_itself_do_not_interrupt_the_saving():
    with StopRequest().handling():
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_request_from_the_preparation_of_a_cluster_stops_all_before_the_first_step():
    request, saved, asked = StopRequest(), Saved(), []
    with request.handling():
        os.kill(os.getpid(), signal.SIGTERM)

    def agree(wanted):
        asked.append(wanted)
        return wanted

    with pytest.raises(Preempted, match="at step 7, before a step was made, with nothing new to save"):
        StopOnSignal(saved, request, agree).stop_before_first_step(7)
    StopOnSignal(saved, StopRequest(), agree).stop_before_first_step(7)
    # A process that is alone was ended by the signal.
    StopOnSignal(saved, request).stop_before_first_step(7)
    assert asked == [True, False] and not saved.asked
