"""The advice from made measurements, and from a short run of the digits."""

import dataclasses
import json
import math

import keras
import pytest

from tests.helpers.preloaded import tfbigbatch
from tfbigbatch import Recipe
from tfbigbatch.models.lstm import SequenceLSTM
from tfbigbatch.tuning import sources
from tfbigbatch.tuning.advice import Advice, Optimizer, optimizer_of, planned
from tfbigbatch.tuning.noise import NoisePoint, Range


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


TUNED = Recipe(32, 0.1, 0.25, epochs=20)
MOMENTUM = Optimizer("momentum", clips=True)


class AdviceOfKnownBatch(Advice):
    critical_batch_size = Range(400.0, 200.0, math.inf)


def made(batch_size=128, tuned=TUNED, optimizer=MOMENTUM, at_peak=1000.0):
    points = [NoisePoint(1, 2, Range(at_peak, at_peak, at_peak))]
    return AdviceOfKnownBatch("made", tuned, optimizer, 10_000, points, {32: [1.0]}, "", 1.0).at(batch_size)


def test_the_tuned_batch_keeps_its_recipe():
    kept = made(32)
    assert (kept.rule, kept.learning_rate, kept.warmup_epochs, kept.optimizer) == ("none", 0.1, 0.25, "momentum")
    assert kept.learning_rate_low == kept.learning_rate_high == 0.1 and not kept.warnings


def test_a_larger_batch_has_legws_recipe():
    found = made(128)
    assert (found.rule, found.learning_rate, found.warmup_epochs) == ("legw", pytest.approx(0.2), 1.0)
    assert found.learning_rate_low < 0.2 < found.learning_rate_high
    assert set(found.reasons) == {"rule", "learning rate", "warm-up", "optimizer"}


def test_little_noise_lowers_the_learning_rate_where_nothing_bounds_a_step():
    """(1 + 16 / 32) / (1 + 16 / 2048) = 1.488 in place of 8: McCandlish et al. 2018."""
    long = dataclasses.replace(TUNED, epochs=500)
    assert made(2048, long, at_peak=16.0).learning_rate == pytest.approx(0.8)
    unbounded = made(2048, long, Optimizer("momentum"), at_peak=16.0)
    assert unbounded.learning_rate == pytest.approx(0.1488, rel=1e-3)
    assert unbounded.learning_rate == pytest.approx(8 * unbounded.tuned_learning_rate)


def test_a_recipe_without_warm_up_gets_one_and_a_long_one_is_cut():
    none = made(128, dataclasses.replace(TUNED, warmup_epochs=0.0))
    assert none.warmup_epochs == pytest.approx(20 * 5 / 90)
    assert none.tuned_warmup_epochs == pytest.approx(none.warmup_epochs / 4)
    assert made(256, dataclasses.replace(TUNED, warmup_epochs=2.0)).warmup_epochs == pytest.approx(10.0)


def test_with_more_steps_the_tuned_optimizer_stays_with_its_own_learning_rate():
    many_steps = dataclasses.replace(TUNED, epochs=90)
    for name in ("momentum", "AdamW", "lars", "muon"):
        found = made(512, many_steps, Optimizer(name, clips=True))
        assert found.optimizer == name and found.learning_rate == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["momentum", "AdamW", "lars", "muon", "lamb"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_muon_or_lamb_where_a_far_larger_batch_leaves_few_steps(name, recurrent):
    optimizer = Optimizer(name, recurrent=recurrent)
    assert made(512, optimizer=optimizer).optimizer == ("lamb" if recurrent else "muon")
    assert made(256, optimizer=optimizer).optimizer == name


@pytest.mark.parametrize("recurrent, name", [(False, "muon"), (True, "lamb")])
def test_another_optimizer_has_its_own_learning_rate_and_warm_up(recurrent, name):
    """Not 0.1 x 4 of momentum, and not LEGW's warm-up of 16 times as many epochs."""
    found = made(512, optimizer=Optimizer("momentum", recurrent=recurrent))
    low, high = {"muon": sources.MUON_RATES, "lamb": sources.LAMB_RATES}[name]
    assert (found.optimizer, found.rule) == (name, "none")
    assert (found.learning_rate_low, found.learning_rate_high) == (low, high)
    assert found.learning_rate == found.tuned_learning_rate == pytest.approx(math.sqrt(low * high), rel=0.05)
    assert found.warmup_epochs == found.tuned_warmup_epochs == pytest.approx(0.08 * TUNED.epochs)
    tuned = Optimizer("LAMB" if recurrent else "Muon", recurrent=recurrent)
    kept = made(512, optimizer=tuned)
    assert kept.learning_rate == pytest.approx(0.4) and kept.reasons["optimizer"].startswith("the tuned one, which")


@pytest.mark.parametrize(
    "made_by, recurrent",
    [
        (lambda layers: [layers.Conv2D(2, 3)], False),
        (lambda layers: [layers.Bidirectional(layers.GRU(2))], True),
        (lambda layers: [layers.ConvLSTM2D(2, 3)], True),
        (lambda layers: [layers.LSTM(2), layers.MultiHeadAttention(1, 2)], False),
        (lambda layers: [SequenceLSTM(2), layers.AdditiveAttention()], False),
    ],
)
def test_the_kind_of_a_network_is_that_of_its_layers(made_by, recurrent):
    nested = keras.Sequential([keras.Sequential(made_by(keras.layers))])
    nested.compile(keras.optimizers.AdamW(clipnorm=1.0))
    assert optimizer_of(nested) == Optimizer("adamw", True, recurrent)


def test_few_steps_and_large_batches_are_warned_of():
    assert not made(128).warnings
    few, large = made(1024).warnings
    assert few.startswith("few steps: 195 in 20 epochs") and large.startswith(
        "the batch is above the critical batch of about 400"
    )


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
