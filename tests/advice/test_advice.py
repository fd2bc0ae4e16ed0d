"""The advice from made measurements, and from a short run of the digits."""

import json

import pytest

from tests.helpers.preloaded import tfbigbatch
from tfbigbatch import Recipe
from tfbigbatch.advice.advice import Advice, planned
from tfbigbatch.advice.noise import NoisePoint, Range
from tfbigbatch.advice.suggestion import Optimizer


def made_advice(noise_scale=600.0, epochs=100, seconds=((32, 1.0), (64, 1.1), (128, 2.2), (256, 4.4))):
    return Advice(
        title="made",
        tuned=Recipe(32, 0.1, 0.1, epochs=epochs),
        optimizer=Optimizer("momentum", clips=True),
        dataset_size=4096,
        points=[
            NoisePoint(step, step + 1, Range(noise_scale, noise_scale / 2, 2 * noise_scale)) for step in (1000, 12_800)
        ],
        step_seconds={size: [value] * 3 for size, value in seconds},
        stopped="it was made",
        seconds=1.0,
        experiment="--config=made",
    )


def test_one_device_stops_where_its_speed_does_and_many_at_the_critical_batch():
    alone = made_advice()
    assert alone.batch_size == 64 and alone.largest_batch_size == 512
    fast = made_advice(seconds=((32, 1.0), (64, 0.9), (128, 0.9), (256, 0.9), (512, 0.9)))
    assert fast.batch_size == 512
    row = fast.row(512)
    assert row.steps == pytest.approx((1 + 600 / 512) / (1 + 600 / 32)) and row.accumulation_steps == 1
    assert row.time.value == pytest.approx(row.steps * 0.9)


def test_a_short_run_is_limited_by_its_steps():
    short = made_advice(epochs=12)  # 1,536 steps at 32, 768 at 64
    assert short.largest_batch_size == 64
    assert "few steps" in str(short)


def test_a_run_without_length_is_advised_by_the_noise_now():
    endless = made_advice(epochs=None)
    assert endless.critical_batch_size == endless.noise_now
    assert endless.suggestion.steps is None and "same epochs" in str(endless)


def test_the_text_has_the_numbers_and_the_command():
    text = str(made_advice())
    for part in ("600 (300 to 1,200)", "worth using", "learning rate 0.1414", "arXiv:1901.08256", "uncertain"):
        assert part in text
    assert "tfbigbatch train --config=made --config.batch_size=64 --config.schedule.rule=legw" in text


def test_a_step_is_planned_with_the_fastest_micro_batch():
    seconds = {8: [2.0, 1.0, 9.0], 16: [3.0], 32: [9.0]}
    assert planned(seconds, 16) == (3.0, 1)
    assert planned(seconds, 32) == (6.0, 2)  # in halves of 16
    assert planned(seconds, 4) == (2.0, 1)  # less than was measured


def test_the_command_refuses_at_once():
    for given, message in (
        (["--config=digits/lstm_smal"], "Did you mean 'digits/lstm_small_batch'"),
        (["--config=digits/lstm_small_batch", "--batch_size=many"], "--batch_size=many"),
        (["--config=digits/lstm_small_batch", "--init_from=nowhere"], "--init_from=nowhere: no checkpoint is there"),
        (["--config=digits/lstm_small_batch", "--output=/dev/null/advice"], "/dev/null/advice"),
    ):
        outcome = tfbigbatch("advise", *given)
        assert outcome.returncode == 1 and message in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "field, message",
    [
        ("optimizer.adasum=true", "optimizer.adasum=True: not measurable"),
        ("batch_size=1", "not measurable: schedule.batch_size=1 with the 1,437 examples"),
        ("batch_size=1000", "schedule.batch_size=1000 with the 1,437 examples"),
        ("schedule.learning_rate=1e30", "not measurable: the recipe diverges"),
    ],
)
def test_what_cannot_be_measured_is_said(field, message):
    small = [
        "--config=digits/lstm_small_batch",
        "--config.model.hidden_units=4",
        "--config.optimizer.global_clipnorm=0",
    ]
    outcome = tfbigbatch("advise", *small, *f"--config.{field}".split(), "--seconds=5")
    assert outcome.returncode == 1 and message in outcome.stderr, outcome.stderr[-2000:]


@pytest.mark.slow
def test_the_command_measures_and_keeps_its_advice(tmp_path):
    outcome = tfbigbatch(
        "advise", "--config=digits/lstm_small_batch", "--config.model.hidden_units=4", "--seconds=5",
        "--batch_size=512", f"--output={tmp_path}/out",
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    found = json.loads((tmp_path / "out" / "advice.json").read_text())
    assert found["tuned"]["batch_size"] == 32 and found["total_steps"] == 1796
    assert found["command"].startswith(
        "tfbigbatch train --config=digits/lstm_small_batch --config.model.hidden_units=4 --config.batch_size="
    )
    assert found["command"] in outcome.stdout and "at batch 512:" in outcome.stdout
    assert "worth using" in (tmp_path / "out" / "advice.txt").read_text()


@pytest.mark.slow
def test_a_recipe_with_moments_that_scale_is_tuned_at_the_batch_of_its_schedule(tmp_path):
    outcome = tfbigbatch(
        "advise", "--config=digits/lstm_small_batch", "--config.model.hidden_units=4", "--seconds=5",
        "--config.batch_size=64", "--config.schedule.moments=half_life_all", f"--output={tmp_path}/out",
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    found = json.loads((tmp_path / "out" / "advice.json").read_text())
    assert found["tuned"]["batch_size"] == 32 and found["tuned"]["optimizer"] == {"momentum": 0.9}
    assert "taken as tuned" not in outcome.stdout and "--config.schedule.batch_size" not in found["command"]
