"""The best checkpoint of a run: kept, resumed after a kill, and left after a rollback."""

import json
import os

import numpy as np
import pytest

from tests.helpers.runs import values_of
from tfbigbatch import train
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.training import setup

ACCURACY = {4: 0.5, 8: 0.7, 12: 0.6, 16: 0.9, 20: 0.8, 24: 0.9}


class Evaluator:
    """In place of the trainer's: the accuracy by step, from `values`; a missing step kills the run."""

    def __init__(self, model, phase, *unused, **fields):
        self._model, self.phase = model, phase

    def __call__(self, *unused):
        step = int(self._model.optimizer.iterations)
        if step not in self.values:
            raise KeyboardInterrupt
        return {"accuracy": self.values[step]}


@pytest.fixture
def accuracies(monkeypatch):
    """The accuracies by step that evaluations find."""
    monkeypatch.setattr(Evaluator, "values", dict(ACCURACY), raising=False)
    monkeypatch.setattr(setup, "Evaluator", Evaluator)
    return Evaluator.values


# Step 8 is the best up to the checkpoint of step 12, which is still there.
FIELDS = {"evaluate_every": "4 steps", "checkpoint_every": "12 steps", "optimizer": {"name": "lamb"}}


def test_the_best_is_kept_beside_the_newest(tmp_path, quick_config, accuracies, capsys):
    result = train.run(quick_config(**FIELDS), model_dir=str(tmp_path))
    assert result["best"] == {"metric": "accuracy", "step": 16, "value": 0.9}
    assert json.loads((tmp_path / "status.json").read_text())["best"] == result["best"]
    assert f"best       test accuracy 0.9000 at step 16: {tmp_path}/best/step-16" in capsys.readouterr().out
    assert checkpoint_files.steps(str(tmp_path / "best")) == [16, 8]
    # It has all that the checkpoints in the other folder have.
    assert values_of(tmp_path / "best" / "step-16").keys() == values_of(tmp_path / "checkpoints" / "step-24").keys()


@pytest.mark.slow
def test_killed_after_its_best_the_run_has_the_same_best(tmp_path, quick_config, accuracies):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train.run(quick_config(**FIELDS), model_dir=str(whole))
    del accuracies[20]
    with pytest.raises(KeyboardInterrupt):
        train.run(quick_config(**FIELDS), model_dir=str(parts))
    assert checkpoint_files.steps(str(parts / "best")) == [16, 8]
    accuracies.update({16: 0.65, 20: 0.8})
    # The best after the checkpoint of step 12, where the run resumes, does not count any more.
    result = train.run(quick_config(**FIELDS), model_dir=str(parts), stop_after=17)
    assert result["best"]["step"] == 8 and checkpoint_files.steps(str(parts / "best")) == [8]
    result = train.run(quick_config(**FIELDS), model_dir=str(parts))
    assert result["best"]["step"] == 24
    assert os.path.samefile(parts / "best" / "step-24.index", parts / "checkpoints" / "step-24.index")
    np.testing.assert_equal(values_of(parts / "best" / "step-8"), values_of(whole / "best" / "step-8"))


@pytest.mark.slow
def test_after_a_rollback_the_best_is_of_the_steps_that_count(tmp_path, quick_config, monkeypatch):
    evaluated = []

    class Poisoned(Evaluator):
        def __call__(self, *unused):
            step = int(self._model.optimizer.iterations)
            evaluated.append(step)
            if evaluated.count(20) == 1 and step == 20:
                first = self._model.trainable_variables[0]
                first.assign(first * np.nan)
            # Before the rollback step 16 was better.
            return {"accuracy": 0.99 if evaluated.count(16) == 1 and step == 16 else ACCURACY[step]}

    monkeypatch.setattr(setup, "Evaluator", Poisoned)
    fields = {"evaluate_every": "4 steps", "checkpoint_every": "12 steps", "divergence__rollbacks": 1}
    result = train.run(quick_config(**fields), model_dir=str(tmp_path))
    assert os.path.exists(tmp_path / "rollbacks.json") and evaluated.count(16) == 2
    assert result["best"] == {"metric": "accuracy", "step": 16, "value": 0.9}
