"""The line of a run's progress, and the steps that are profiled."""

import re

import pytest
import tensorflow as tf

from tfbigbatch import train
from tfbigbatch.training.progress import Profile, Progress


def test_a_line_without_a_terminal_has_the_learning_rate_and_the_speed(tmp_path, quick_config, capsys):
    train.run(quick_config(schedule__decay="constant"), model_dir=str(tmp_path), mode="train")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert lines and all(
        re.fullmatch(r"step \d+/24  loss [\d.]+  learning_rate 0\.1  examples_per_second [\d,]+", line)
        for line in lines
    )


def test_a_line_is_due_at_a_tenth_of_the_run_and_after_a_while(capsys, monkeypatch):
    progress = Progress(0, 120)
    progress.row, progress.evaluated = {"loss": 1.5, "learning_rate": 0.1}, {"accuracy": 0.5}
    for step in (11, 12, 13):
        progress.after_row(step)
    line = "step 12/120  loss 1.5000  test_accuracy 0.5000  learning_rate 0.1"
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setattr("tfbigbatch.training.progress._SECONDS", -1.0)
    progress.after_row(14)
    assert capsys.readouterr().out.startswith("step 14/120")


@pytest.mark.parametrize(
    "first, last, expected",
    [(0, 9, [("folder", 3), 5]), (4, 9, [("folder", 4), 5]), (5, 9, []), (3, 4, [("folder", 3), 4])],
    ids=["from the beginning", "resumed in its middle", "resumed behind it", "ended before it"],
)
def test_a_profile_begins_and_ends_at_its_steps(monkeypatch, first, last, expected):
    step, called = first, []
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: called.append((folder, step)))
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: called.append(step))
    profile = Profile("folder", (3, 5))
    while step < last:
        profile.at_step(step)
        step += int(min(profile.steps_left(step), last - step))
    profile.close()
    assert called == expected
