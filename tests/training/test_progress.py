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


def test_a_line_that_is_redrawn_leaves_one_of_its_own_to_the_next(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    progress = Progress(120)
    progress.redraw(1, lambda: {"loss": 2.0})
    # A moment later it is not redrawn, and the means are not read.
    progress.redraw(2, lambda: pytest.fail("the means were read"))
    progress.row, progress.evaluated = {"loss": 1.5, "learning_rate": 0.1}, {"accuracy": 0.5}
    progress.interval_ends(0, 11)
    progress.interval_ends(0, 12)
    line = "step 12/120  loss 1.5000  test_accuracy 0.5000  learning_rate 0.1"
    assert capsys.readouterr().out == f"\rstep 1/120  loss 2.0000\r{line}\n"
    monkeypatch.setattr("tfbigbatch.training.progress._REDRAW_SECONDS", -1.0)
    progress.redraw(13, dict)
    progress.close()
    progress.close()
    said = capsys.readouterr().out
    assert said.startswith("\rstep 13/120") and said.endswith("\n") and not said.endswith("\n\n")
    quiet = Progress(120, shows=False)
    quiet.redraw(1, dict)
    quiet.interval_ends(0, 120)
    quiet.close()
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    "first, begins, ends",
    [(0, 3, 5), (4, 4, 5), (5, None, None)],
    ids=["from the beginning", "resumed in its middle", "resumed behind it"],
)
def test_a_profile_begins_and_ends_at_its_steps(monkeypatch, first, begins, ends):
    step, called = first, []
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: called.append((folder, step)))
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: called.append(step))
    profile = Profile("folder", (3, 5))
    while step < 9:
        profile.at_step(step)
        step += int(min(profile.steps_left(step), 4))
    profile.close()
    assert called == ([] if begins is None else [("folder", begins), ends])


def test_a_run_that_ends_before_its_profile_does_ends_it(monkeypatch):
    called = []
    monkeypatch.setattr(tf.profiler.experimental, "start", called.append)
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: called.append("stop"))
    for steps in ((3, 5), None):
        profile = Profile("folder", steps)
        profile.at_step(4)
        profile.close()
        profile.close()
    assert called == ["folder", "stop"] and profile.steps_left(4) == float("inf")
