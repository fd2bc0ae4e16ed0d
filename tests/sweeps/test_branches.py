"""Branches from the checkpoints of a run, and the command that measures the critical batch by them."""

import json
import os
import shutil

import numpy as np
import pytest

from tests.helpers import preloaded
from tests.helpers.runs import final_weights
from tfbigbatch import train
from tfbigbatch.cli.critical_batch import say_ramp
from tfbigbatch.config.recipe import check_plan
from tfbigbatch.reports.critical_batch_report import Branch, points_of
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.sweeps import branches
from tfbigbatch.sweeps.branches import BranchedRun


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """The folder of the run, from the first test that asks for it on."""
    return tmp_path_factory.mktemp("trained") / "small"


@pytest.fixture
def small_run(tmp_path, quick_config, trained_once):
    """A copy of a run of its own for each test."""
    if not trained_once.exists():
        config = quick_config(batch_size=16, keep_checkpoints=9, schedule__batch_size=16, schedule__decay="cosine")
        train.run(config, model_dir=str(trained_once))
    shutil.copytree(trained_once, tmp_path / "small")
    return str(tmp_path / "small")


def test_points_are_checkpoints_with_the_learning_rate_of_the_run(small_run):
    points = BranchedRun(small_run).points()
    assert [point.step for point in points] == [8, 16]
    assert points[0].learning_rate == pytest.approx(0.1 * 0.5 * (1 + np.cos(np.pi * 8 / 24)), rel=1e-5)
    assert points[0].examples == 128 and points[0].epoch == pytest.approx(128 / 1437)
    assert [point.step for point in BranchedRun(small_run).points([16])] == [16]
    assert len(BranchedRun(small_run).points(most=1)) == 1


def test_a_branch_continues_the_run_with_a_larger_batch(small_run, tmp_path):
    run = BranchedRun(small_run)
    point = run.points([8])[0]
    small, large = run.branches(point, [16, 64], examples="256 examples", seeds=[0])
    assert not small.config.ramp.growth and large.config.ramp.growth[-1][1] == 64
    directory = str(tmp_path / "branch")
    result = branches.run_branch(
        large.config_at(0), model_dir=directory, checkpoints={8: point.checkpoint}, run=train.run, data_dir=None
    )
    # Eight steps of the run, then 256 examples of 64.
    assert (result["step"], result["status"]) == (12, "done") and result["metrics"]
    rates = [row["learning_rate"] for row in read_rows(f"{directory}/metrics.jsonl") if "learning_rate" in row]
    assert rates == pytest.approx([2 * point.learning_rate * (1 - n / 4) for n in range(4)])
    assert not checkpoint_files.paths(os.path.join(directory, "checkpoints"))


@pytest.mark.slow
def test_the_own_batch_repeats_the_run(small_run, tmp_path, quick_config):
    """A branch of the run's own batch at its own, constant, learning rate ends in its weights."""
    constant = {"batch_size": 16, "schedule__batch_size": 16, "schedule__decay": "constant"}
    train.run(quick_config(**constant, keep_checkpoints=9), model_dir=str(tmp_path / "constant"))
    run = BranchedRun(str(tmp_path / "constant"))
    point = run.points([8])[0]
    branch = run.branches(point, [16, 32], examples="256 examples", seeds=[0])[0].config_at(0)
    branch.schedule.decay = "constant"
    found = {}

    def kept(*arguments, model_dir, **options):
        result = train.run(*arguments, model_dir=model_dir, **options)
        found.update(final_weights(model_dir))
        return result

    branches.run_branch(branch, model_dir=str(tmp_path / "b"), checkpoints={8: point.checkpoint}, run=kept)
    weights = {name: value for name, value in final_weights(tmp_path / "constant").items() if "weights/" in name}
    assert weights
    for name, value in weights.items():
        np.testing.assert_array_equal(found[name], value)


def test_branches_have_the_moments_of_the_run(tmp_path, quick_config):
    fields = {"schedule__batch_size": 16, "batch_size": 64, "schedule__moments": "half_life", "duration": "4 steps"}
    train.run(quick_config(**fields, optimizer={"name": "adamw"}), model_dir=str(tmp_path / "run"), mode="train")
    run = BranchedRun(str(tmp_path / "run"))
    for branch in run.branches(run.points([4])[0], [64, 128], examples="512 examples", seeds=[0]):
        assert branch.config.optimizer.beta_2 == pytest.approx(0.999**4)
        check_plan(branch.config)


@pytest.mark.parametrize(
    "change, message",
    [
        *(({"batch_sizes": sizes}, "expected the run's own batch, 16,") for sizes in ([16], [32, 64], [16, 40])),
        ({"batch_sizes": [16, 128]}, "16,128.*with 4 steps or more each; 256 examples are 16 steps at 16"),
        ({"examples": "256"}, "does not say how long"),
    ],
)
def test_what_cannot_be_branched(small_run, change, message):
    run = BranchedRun(small_run)
    options = {"batch_sizes": [16, 32], "examples": "256 examples", "seeds": [0], **change}
    with pytest.raises(ValueError, match=message):
        run.branches(run.points()[0], **options)


@pytest.mark.slow
def test_a_run_without_what_is_needed(small_run, tmp_path, quick_config):
    with pytest.raises(ValueError, match="--steps=9: .* has checkpoints at 8, 16, 24 only"):
        BranchedRun(small_run).points([9])
    with pytest.raises(ValueError, match="holds no run"):
        BranchedRun(str(tmp_path / "nothing"))
    ramp = quick_config(ramp__name="growth", ramp__growth=(("4 steps", 96),), duration="8 steps")
    train.run(ramp, model_dir=str(tmp_path / "ramp"), mode="train")
    with pytest.raises(ValueError, match="a run with phases or a batch ramp"):
        BranchedRun(str(tmp_path / "ramp"))


@pytest.mark.slow
def test_the_command_measures_resumes_and_draws(small_run, tmp_path):
    arguments = [
        "critical-batch",
        small_run,
        f"--model_dir={tmp_path}/branches",
        f"--results={tmp_path}/found",
        "--examples=256 examples",
        "--batch_sizes=16,64",
        "--steps=8",
    ]
    first = preloaded.tfbigbatch(*arguments, "--seeds=0")
    assert first.returncode == 0, first.stderr
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert [json.loads(line)["batch_size"] for line in lines] == [16, 64]
    assert "| critical batch |" in first.stdout and "ramp     " in first.stdout
    second = preloaded.tfbigbatch(*arguments, "--seeds=0,1")
    assert second.returncode == 0, second.stderr
    again = (tmp_path / "found.jsonl").read_text().splitlines()
    assert again[:2] == lines and [json.loads(line)["seed"] for line in again[2:]] == [1, 1]
    for flag, said in {
        "--rule=linear": "'rule': 'sqrt'",
        "--examples=32 steps": "'trained': 256",
        "--seeds=": "--seeds= is empty",
    }.items():
        refused = preloaded.tfbigbatch(*arguments, "--seeds=0,1", flag)
        assert refused.returncode == 1 and said in refused.stderr, flag
    drawn = preloaded.tfbigbatch("critical-batch", f"--results={tmp_path}/found", "--tolerance=0.5")
    assert drawn.returncode == 0 and "less than 0.5 nats" in (tmp_path / "found.md").read_text()
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


def test_the_ramp_doubles_up_to_what_was_measured_and_never_shrinks(capsys):
    # Losses of batch 16, 32 and 64 at three checkpoints.
    measured = [
        Branch(step, 16 * step, 1.0, 0.1, 256, size, 0, loss)
        for step, losses in {8: (1.0, 1.0, 9.0), 16: (1.0, 9.0, 9.0), 24: (1.0, 1.0, 1.0)}.items()
        for size, loss in zip((16, 32, 64), losses)
    ]
    say_ramp(16, points_of(measured, 0.02))
    assert "ramp.growth=(('128 examples',32),('384 examples',64),)" in capsys.readouterr().out
    say_ramp(16, points_of(measured[3:6], 0.02))
    assert "no larger batch keeps the loss of 16" in capsys.readouterr().out
