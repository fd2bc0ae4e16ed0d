"""The parts of a run's wall time, with a clock of the test's own."""

import types

import pytest

from tfbigbatch.run_directory import goodput
from tfbigbatch.run_directory.goodput import PARTS, Goodput
from tfbigbatch.utils.startup import StartTimings


@pytest.fixture
def clock(monkeypatch):
    """In place of the module `time`: both clocks stand until the test moves them."""
    made = types.SimpleNamespace(now=1000.0)
    made.perf_counter = made.time = lambda: made.now
    monkeypatch.setattr(goodput, "time", made)
    monkeypatch.setattr("tfbigbatch.utils.startup.time", made)
    return made


def started(clock, status=None, step=0, reached=0):
    """A process of 5 seconds of start, 2 of tracing and 1 of its first step."""
    timings = StartTimings()
    counted = Goodput(status or {}, timings, step=step, reached=reached)
    for seconds, part in ((5.0, "tensorflow"), (2.0, "tracing"), (1.0, "first_step")):
        clock.now += seconds
        timings.mark(part)
    counted.started(step + 1)
    return counted


def parts(content):
    assert content["wall"] == pytest.approx(sum(content[name] for name in PARTS))
    return {name: content[name] for name in PARTS if content[name]}


def test_every_second_has_its_part(clock):
    counted = started(clock)
    counted.waited = lambda: 0.75
    clock.now += 5.0
    with counted.timed("evaluate"):
        clock.now += 3.0
        with counted.timed("save"):
            clock.now += 1.0
    clock.now += 0.25
    content = counted.content(12)
    expected = {"useful": 4.5, "input": 0.75, "compile": 3.0, "save": 1.0, "evaluate": 3.0, "restarts": 5.0}
    assert parts(content) == expected and content["fraction"] == pytest.approx(4.5 / 17.25, abs=1e-4)
    assert (content["starts"], content["repeated_steps"]) == (1, 0)
    assert parts(counted.content(12)) == expected


def test_a_resumed_process_repeats_what_was_lost(clock):
    first = started(clock)
    clock.now += 19.0
    status = {"status": "running", goodput.NAME: first.content(20)}
    # Killed some time after it was written, at step 23; the next process begins after 34 seconds, at step 10.
    clock.now += 34.0
    second = started(clock, status, step=10, reached=23)
    clock.now += 16.0
    content = second.content(27)
    # Of 16 steps 12 are repeated: 12 to 23.
    expected = {"useful": 23.0, "compile": 6.0, "restarts": 5.0 + 34.0 + 5.0 + 12.0}
    assert parts(content) == expected and (content["starts"], content["repeated_steps"]) == (2, 13)


def test_a_process_that_never_made_a_step_was_a_restart(clock):
    status = {"status": "preempted", goodput.NAME: started(clock).content(1)}
    clock.now += 10.0
    never = Goodput(status, StartTimings(), step=1, reached=1)
    clock.now += 7.0
    assert never.content(1)["restarts"] == pytest.approx(22.0)


def test_the_time_after_a_finished_run_does_not_count(clock):
    status = {"status": "done", goodput.NAME: started(clock).content(1)}
    clock.now += 1e6
    assert Goodput(status, StartTimings(), step=1, reached=1).content(1)["wall"] == status[goodput.NAME]["wall"]
