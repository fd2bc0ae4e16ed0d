"""What the loop costs beside the compiled steps: it must not matter where a step takes a few milliseconds."""

import statistics
import time

import pytest

from tfbigbatch import train
from tfbigbatch.training import setup
from tfbigbatch.training.step import Pace

LEAST = 0.001  # seconds


@pytest.mark.slow  # A time, which other work on the machine can spoil.
def test_between_two_calls_of_one_step_pass_less_than_a_millisecond(tmp_path, quick_config, monkeypatch):
    began, ended = [], []

    class Timed(setup.TrainingSteps):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            compiled = self._steps

            def timed(*given):
                # Of this thread: other processes, and TensorFlow's own threads, do not count.
                began.append(time.thread_time())
                totals = compiled(*given)
                ended.append(time.thread_time())
                return totals

            self._steps = timed

    monkeypatch.setattr(setup, "TrainingSteps", Timed)
    monkeypatch.setattr(Pace, "steps", lambda pace, left: 1)
    no_events = dict.fromkeys(("log_every", "evaluate_every", "checkpoint_every"), "0 steps")
    train.run(quick_config(duration="300 steps", **no_events), model_dir=str(tmp_path), mode="train")
    between = [later - before for before, later in zip(ended, began[1:])]
    assert len(between) == 299 and statistics.median(between) < LEAST, statistics.median(between)
