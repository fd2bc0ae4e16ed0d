"""The recipe to begin with at a batch size."""

import dataclasses
import math

import pytest
import tf_keras

from tfbigbatch import Recipe
from tfbigbatch.advice import sources
from tfbigbatch.advice.noise import Range
from tfbigbatch.advice.suggestion import Optimizer, optimizer_of, suggest
from tfbigbatch.models.gnmt import NormedBahdanau
from tfbigbatch.models.lstm import SequenceLSTM

TUNED = Recipe(32, 0.1, 0.25, epochs=20)
MOMENTUM = Optimizer("momentum", clips=True)


def made(batch_size=128, tuned=TUNED, optimizer=MOMENTUM, at_peak=1000.0):
    critical = Range(400.0, 200.0, math.inf)
    return suggest(tuned, optimizer, batch_size, dataset_size=10_000, critical=critical, at_peak=at_peak)


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


@pytest.mark.parametrize("name", ["momentum", "AdamW", "lars", "muon"])
def test_muon_where_a_far_larger_batch_leaves_few_steps(name):
    assert made(512, optimizer=Optimizer(name)).optimizer == "muon"
    assert made(256, optimizer=Optimizer(name)).optimizer == name


@pytest.mark.parametrize("name", ["momentum", "AdamW", "muon", "lamb"])
def test_lamb_where_a_far_larger_batch_leaves_a_recurrent_network_few_steps(name):
    recurrent = Optimizer(name, recurrent=True)
    assert made(512, optimizer=recurrent).optimizer == "lamb"
    assert made(256, optimizer=recurrent).optimizer == name


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
        (lambda layers: [SequenceLSTM(2), NormedBahdanau(2)], False),
    ],
)
def test_the_kind_of_a_network_is_that_of_its_layers(made_by, recurrent):
    nested = tf_keras.Sequential([tf_keras.Sequential(made_by(tf_keras.layers))])
    nested.compile(tf_keras.optimizers.AdamW(clipnorm=1.0))
    assert optimizer_of(nested) == Optimizer("adamw", True, recurrent)


def test_few_steps_and_large_batches_are_warned_of():
    assert not made(128).warnings
    few, large = made(1024).warnings
    assert few.startswith("few steps: 195 in 20 epochs") and large.startswith(
        "the batch is above the critical batch of about 400"
    )
