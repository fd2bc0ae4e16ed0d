"""The batch ramp of the advice, from the noise scale and from branches."""

import dataclasses
import math

import pytest

from tests.advice.test_advice import made_advice
from tests.helpers import preloaded
from tfbigbatch.advice.noise import Range
from tfbigbatch.advice.ramp import Branched, over_the_run
from tfbigbatch.reports import critical_batch_report as report

BRANCHED = (
    Branched(6_400, Range(70.0, 50.0, 90.0), 512),
    Branched(64_000, Range(math.inf, 300.0, math.inf), 512),
)


def test_a_noise_scale_below_the_batch_suggests_a_ramp_over_half_of_the_run():
    advice = made_advice(replicas=16, seconds=((2, 0.9), (4, 0.9), (8, 0.9), (16, 0.9), (32, 1.0)))
    # 512 is worth using, and less than the noise scale all along.
    assert advice.batch_size == 512 and advice.ramp is None
    (later,) = advice.points
    early = dataclasses.replace(later, first_step=1, last_step=400, noise_scale=40.0)
    low = dataclasses.replace(advice, points=[early, dataclasses.replace(later, first_step=401)])
    ramp = low.ramp
    assert ramp is not None and ramp.ramp.batch_sizes[-1] == low.batch_size
    assert "--config.ramp.name=doubling" in ramp.fields and "--config.ramp.over='50 epochs'" in ramp.fields
    assert ramp.steps == ramp.ramp.total_steps(low.dataset_size) < low.total_steps
    # Whole, for a shell.
    assert "\nramp" in str(low) and f" {ramp.fields}\n" in str(low)


def test_branches_replace_the_noise_scale():
    advice = dataclasses.replace(made_advice(), branched=BRANCHED)
    assert advice.critical_batch_size == over_the_run(BRANCHED)
    assert advice.critical_batch_size.value == pytest.approx(math.sqrt(70 * 512))
    assert math.isinf(advice.critical_batch_size.high)
    assert advice.ramp.ramp.growth == (("6400 examples", 64), ("64000 examples", 512))
    assert "critical batch by branching, epoch 15.6: > 512 (300 to > 512)" in str(advice)
    assert advice.ramp.fields.startswith(f"--config.batch_size={advice.tuned.batch_size} --config.ramp.name=growth")
    assert advice.to_dict()["ramp"]["steps"] == advice.ramp.steps


def test_a_run_without_length_has_no_ramp():
    assert dataclasses.replace(made_advice(epochs=None), branched=BRANCHED).ramp is None


def test_the_command_refuses_another_file(tmp_path):
    report.write(str(tmp_path / "empty.jsonl"), [])
    outcome = preloaded.tfbigbatch(
        "advise", "--config=digits/lstm_small_batch", f"--critical_batch={tmp_path}/empty.jsonl"
    )
    assert outcome.returncode == 1 and "no checkpoint with branches" in outcome.stderr
    outcome = preloaded.tfbigbatch("advise", "--config=digits/lstm_small_batch", "--critical_batch=none.jsonl")
    assert outcome.returncode == 1 and "--critical_batch=none.jsonl: there is no such file" in outcome.stderr
