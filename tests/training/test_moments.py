"""Moments and weight decay of a run's optimizer, as `schedule` scales them with the batch."""

import operator

import pytest

from tests.training.test_ramps import digits_phases
from tfbigbatch import train
from tfbigbatch.training.build import compiled_network

SCALED = {"schedule__batch_size": 12, "batch_size": 192}
HALF_LIFE = {**SCALED, "schedule__moments": "half_life"}
ALL = {**SCALED, "schedule__moments": "half_life_all", "schedule__weight_decay": "kept", "schedule__rule": "sqrt"}
LAMB = {"name": "lamb", "beta_2": 0.99, "weight_decay": 0.01}


@pytest.mark.parametrize(
    "fields, optimizer, expected",
    [
        (HALF_LIFE, LAMB, {"beta_1": 0.9, "beta_2": 0.99**16, "weight_decay": 0.01}),
        (ALL, LAMB, {"beta_1": 0.9**16, "beta_2": 0.99**16, "weight_decay": 0.04}),
        # Keras' defaults count.
        (ALL, {"name": "adamw"}, {"beta_1": 0.9**16, "beta_2": 0.999**16, "weight_decay": 0.016}),
        (
            HALF_LIFE,
            {"name": "muon", "normuon_beta": 0.95, "treatments": (("lstm", "gates"),)},
            {"momentum": 0.95, "normuon_beta": 0.95**16, "vectors.beta_1": 0.9, "vectors.beta_2": 0.99**16},
        ),
        (
            ALL,
            {"name": "muon", "vectors": {"step": "lamb", "beta_2": 0.95}, "weight_decay": 0.01},
            {"momentum": 0.95**16, "vectors.step": "lamb", "vectors.beta_1": 0.9**16, "vectors.beta_2": 0.95**16},
        ),
        (
            ALL,
            {"name": "shampoo", "weight_decay": 0.1},
            {"beta_1": 0.9**16, "beta_2": 0.99**16, "vectors.beta_2": 0.99, "weight_decay": 0.4},
        ),
        (ALL, {"name": "momentum", "momentum": 0.9, "weight_decay": 0.01}, {"momentum": 0.9**16, "weight_decay": 0.04}),
        (SCALED, LAMB, {"beta_1": 0.9, "beta_2": 0.99, "weight_decay": 0.01}),
        # Weight decay in numbers of another kind.
        (ALL, {"name": "lars", "weight_decay": 1}, {"momentum": 0.9**16, "weight_decay": 4}),
    ],
)
def test_the_optimizer_of_a_run_has_the_scaled_values(quick_config, fields, optimizer, expected):
    config = quick_config(**fields, optimizer=optimizer)
    made = compiled_network(config, digits_phases(config)).optimizer
    assert {name: operator.attrgetter(name)(made) for name in expected} == pytest.approx(expected)
    # The config says what it said.
    assert config.optimizer.to_dict() == optimizer


def test_the_banner_says_the_change(tmp_path, quick_config, capsys):
    train.run(quick_config(**ALL, optimizer=LAMB, duration="2 steps"), model_dir=str(tmp_path), mode="train")
    out = capsys.readouterr().out
    assert "scaled     beta_2 0.99 -> 0.8515, beta_1 0.9 -> 0.1853, weight_decay 0.01 -> 0.04\n" in out
    assert "schedule   sqrt, x16 batch: learning rate 0.1 -> 0.4 (x4), warm-up 0 epochs, then linear\n" in out


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"schedule__moments": "halflife"}, "schedule.moments='halflife' is unknown. Did you mean 'half_life'"),
        ({"schedule__weight_decay": "keep"}, "schedule.weight_decay='keep' is unknown"),
        (
            {"schedule__moments": "half_life"},
            "moments='half_life' scales beta_2, normuon_beta, vectors.beta_2; the recipe has none",
        ),
        ({"schedule__weight_decay": "kept"}, "weight_decay='kept': the recipe has no weight_decay above 0"),
        (
            {
                "schedule__moments": "half_life",
                "optimizer": LAMB,
                "phases": ({"duration": "4 steps"}, {"duration": "4 steps", "batch_size": 96}),
            },
            "the optimizer of a run keeps its moments and weight decay, and this run has phases",
        ),
        (
            {"schedule__moments": "half_life", "optimizer": LAMB, "ramp__name": "doubling", "ramp__to": 192},
            "this run has phases or a ramp of other batches",
        ),
    ],
)
def test_what_cannot_be_scaled_is_refused_before_training(tmp_path, quick_config, fields, message):
    with pytest.raises(ValueError, match=message):
        train.run(quick_config(**fields), model_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
