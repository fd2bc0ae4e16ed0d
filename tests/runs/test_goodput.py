"""The parts of a run's wall time, with a clock of the test's own."""

import json
import os
import types

import pytest

from tfbigbatch.runs import goodput
from tfbigbatch.runs.goodput import PARTS, Goodput, resumed, table_lines
from tfbigbatch.runs.run_directory import RunDirectory, checked_status
from tfbigbatch.utils.startup import StartTimings


class Clock:
    """In place of the module `time`: both clocks stand until the test moves them."""

    def __init__(self):
        self.now = 1000.0

    def perf_counter(self):
        return self.now

    time = perf_counter


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(goodput, "time", made)
    monkeypatch.setattr("tfbigbatch.utils.startup.time", made)
    return made


def started(clock, before=None, ended=None, reached=0, step=0):
    """A process of 5 seconds of start, 2 of tracing and 1 of its first step."""
    timings = StartTimings()
    counted = Goodput(before or {}, timings, ended=ended, reached=reached, step=step)
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
    for step in range(2, 12):
        clock.now += 0.5
        counted.advance(step)
    with counted.timed("evaluate"):
        clock.now += 3.0
        with counted.timed("save"):
            clock.now += 1.0
    clock.now += 0.25
    content = counted.content()
    # The first call took half a second longer than the second.
    assert parts(content) == {"start": 5.0, "compile": 2.5, "useful": 5.75, "evaluate": 3.0, "save": 1.0}
    assert content["fraction"] == pytest.approx(5.75 / 17.25, abs=1e-4)
    assert (content["step"], content["starts"], content["repeated_steps"]) == (11, 1, 0)
    counted.advance(12)
    assert parts(counted.content()) == parts(content)


def test_waits_for_input_are_taken_from_the_steps(clock):
    counted = started(clock)
    counted.input_wait = types.SimpleNamespace(seconds=0.0)
    clock.now += 2.0
    counted.advance(3)
    counted.input_wait.seconds = 0.75
    assert parts(counted.content())["input"] == 0.75
    assert parts(counted.content())["input"] == 0.75


def test_a_resumed_process_repeats_what_was_counted_and_lost(clock):
    first = started(clock)
    for step in range(2, 21):
        clock.now += 1.0
        first.advance(step)
    before = first.content()
    # Killed 4 seconds after it was written, at a step that only the log knows; then nothing for 30 seconds.
    clock.now += 34.0
    second = started(clock, before, ended=clock.now - 30.0, reached=23, step=10)
    for step in range(12, 31):
        clock.now += 1.0
        second.advance(step)
    content = second.content()
    found = parts(content)
    assert content["repeated_steps"] == 13 and content["starts"] == 2
    assert found["restart"] == pytest.approx(35.0) and found["start"] == 5.0 and found["compile"] == 4.0
    # Steps 11 to 20 again, and the 4 seconds of which nothing is left; each of the 30 steps is counted once.
    assert found["repeated"] == pytest.approx(14.0) and found["useful"] == pytest.approx(30.0)


def test_a_checkpoint_after_the_record_keeps_its_part_of_the_seconds(clock):
    first = started(clock)
    clock.now += 9.0
    first.advance(10)
    before = first.content()
    clock.now += 4.0
    counted = Goodput(before, StartTimings(), ended=clock.now, reached=14, step=13)
    assert counted.seconds["repeated"] == pytest.approx(1.0)
    assert counted.seconds["useful"] == pytest.approx(before["useful"] + 3.0)


def test_a_process_that_never_made_a_step_was_a_restart(clock):
    before = started(clock).content()
    clock.now += 10.0
    timings = StartTimings()
    never = Goodput(before, timings, ended=before["time"], reached=1, step=1)
    clock.now += 7.0
    content = never.content()
    assert content["restart"] == pytest.approx(17.0) and content["starts"] == 2
    clock.now += 3.0
    again = Goodput(content, StartTimings(), ended=clock.now, reached=1, step=1)
    # The 3 seconds that it went on without a word count as lost.
    assert again.seconds["restart"] == pytest.approx(17.0) and again.seconds["repeated"] == pytest.approx(3.0)


def test_the_time_after_a_finished_run_does_not_count(tmp_path, clock):
    content = started(clock).content()
    status = {"status": "done", "step": 1, "goodput": content}
    clock.now += 1e6
    files = RunDirectory(str(tmp_path))
    assert resumed(files, status, StartTimings(), 1).content()["wall"] == pytest.approx(content["wall"])
    waited = resumed(files, {**status, "status": "preempted"}, StartTimings(), 1).content()
    assert waited["restart"] == pytest.approx(1e6)


def test_the_end_of_a_process_is_its_last_sign(tmp_path):
    files = RunDirectory(str(tmp_path))
    os.makedirs(files.checkpoints)
    for name, written in ((files.metrics, 50.0), (os.path.join(files.checkpoints, "step-8.index"), 60.0)):
        with open(name, "w", encoding="utf-8"):
            os.utime(name, (written, written))
    assert goodput.last_sign(files, {"time": 40.0}) == 60.0
    assert goodput.last_sign(files, {"time": 70.0}) == 70.0


def test_a_run_of_an_earlier_version_counts_from_its_resumption(tmp_path, clock):
    status = {"status": "running", "step": 7}
    content = resumed(RunDirectory(str(tmp_path)), status, StartTimings(), 5).content()
    assert content["wall"] == 0.0 and content["step"] == 5


@pytest.mark.parametrize("wrong", [[], "all", {"useful": "much"}, {"wall": -1.0}, {"save": None}, {"step": 10**400}])
def test_goodput_of_another_kind_is_refused(wrong):
    with pytest.raises(ValueError, match="goodput cannot be used"):
        checked_status(json.loads(json.dumps({"status": "running", "step": 1, "goodput": wrong})), "status.json")


def test_the_table_has_the_parts_that_there_were(clock):
    status = {"goodput": started(clock).content()}
    lines = table_lines([("LAMB at 64, seed 0", status), ("none", {})])
    assert lines[0] == ["run", "goodput", "wall seconds", "start", "compile", "starts", "steps repeated"]
    assert lines[1] == ["LAMB at 64, seed 0", "0.0%", "8.0", "62.5%", "37.5%", "1", "0"]
    assert table_lines([("none", {})]) == []
