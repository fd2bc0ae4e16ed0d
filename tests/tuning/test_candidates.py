"""Candidates around a carried recipe, in numbers without dimensions."""

import math

import numpy as np
import pytest

from tfbigbatch.config import load_config, override
from tfbigbatch.errors import InputError
from tfbigbatch.tuning.candidates import Point, SearchSpace, quasirandom


def config_of(*fields):
    config = load_config("digits/lstm_small_batch")
    override(config, fields)
    return config


def space(*fields, batch_size=512, **options):
    return SearchSpace(config_of(*fields), dataset_size=1437, batch_size=batch_size, **options)


ADAMW = ("optimizer.name=adamw", "optimizer.weight_decay=0.1", "schedule.learning_rate=0.01")


def half_life(beta):
    return math.log(0.5) / math.log(beta)


def test_the_first_candidate_is_the_carried_recipe():
    found = space()
    recipe = found.recipe_of(found.points(1)[0])
    # LEGW from 32 to 512: four times the rate, sixteen times the warm-up.
    assert (recipe.batch_size, recipe.learning_rate, recipe.warmup_epochs) == (512, 1.2, 1.0)
    assert recipe.optimizer == {"momentum": 0.9}
    muon = space("optimizer.name=muon", "schedule.warmup_epochs=1.0")
    assert muon.recipe_of(muon.points(1)[0]).warmup_epochs == 1.0


def test_weight_decay_is_that_of_the_tuned_product_with_rate_and_steps():
    found = space(*ADAMW)
    carried, kept = found.carried("adamw"), Point("adamw", decay=1.0)
    # The product falls by the root of the batch where the decay stays.
    assert found.recipe_of(carried).optimizer["weight_decay"] == pytest.approx(0.1, rel=0.01)
    recipe = found.recipe_of(kept)
    product = recipe.learning_rate * recipe.optimizer["weight_decay"] * found.total_steps
    assert product == pytest.approx(0.01 * 0.1 * found.tuned.total_steps(1437), rel=1e-3)
    faster = found.recipe_of(Point("adamw", rate=2.0))
    assert faster.optimizer["weight_decay"] == pytest.approx(recipe.optimizer["weight_decay"] / 2, rel=1e-3)


def test_memory_goes_from_the_half_life_in_steps_to_that_in_examples():
    found = space(*ADAMW)
    betas = [found.recipe_of(Point("adamw", half_life=each)).optimizer["beta_2"] for each in (1.0, 0.5, 0.0)]
    assert betas[0] == 0.999
    lives = [half_life(beta) for beta in betas]
    np.testing.assert_allclose([lives[0] / lives[1], lives[0] / lives[2]], [4.0, 16.0], rtol=1e-3)
    # Not below half a step.
    assert found.recipe_of(Point("adamw", half_life=0.0)).optimizer["beta_1"] == pytest.approx(0.25)


def test_another_optimizer_begins_where_the_best_were_in_few_steps():
    found = space(optimizers=("tuned", "muon", "lamb"))
    assert [each.optimizer for each in found.points(4)] == ["momentum", "muon", "lamb", "momentum"]
    recipe = found.recipe_of(found.carried("muon"))
    assert recipe.learning_rate == pytest.approx(math.sqrt(0.005 * 0.05), rel=1e-3)
    # beta_2 of 0.999 would look back over more steps than the run has.
    assert half_life(recipe.optimizer["vectors"]["beta_2"]) == pytest.approx(found.total_steps / 4, rel=1e-3)
    config = found.config_of(found.carried("muon"))
    assert config.optimizer.name == "muon" and config.schedule.rule == "none"
    assert config.optimizer.global_clipnorm == 1.0


def test_the_sequence_covers_each_range_evenly():
    drawn = np.array([quasirandom(number, 4) for number in range(16)])
    assert drawn[0].tolist() == [0.5] * 4
    # About as many in each quarter of a range.
    for axis in drawn.T:
        counts = np.histogram(axis, 4, (0, 1))[0]
        assert set(counts) <= {3, 4, 5, 6}, counts


def test_what_is_not_searched_stays_as_it_was_carried():
    found = space(*ADAMW, search=("rate",))
    carried = found.carried("adamw")
    for each in found.points(6):
        assert (each.half_life, each.decay, each.warmup) == (carried.half_life, carried.decay, carried.warmup)
    rates = [each.rate for each in found.points(6)]
    assert len(set(rates)) == 6 and min(rates) >= 0.25 and max(rates) <= 4.0


def test_a_step_of_heavy_ball_momentum_is_as_long_at_any_half_life():
    found = space()
    recipes = [found.recipe_of(Point("momentum", half_life=share)) for share in (1.0, 0.5, 0.0)]
    momenta = [recipe.optimizer["momentum"] for recipe in recipes]
    assert momenta == sorted(momenta, reverse=True) and momenta[0] == 0.9
    lengths = [recipe.learning_rate / (1.0 - momentum) for recipe, momentum in zip(recipes, momenta)]
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-3)


LARS = ("optimizer.name=lars", "optimizer.weight_decay=0.0001", "schedule.learning_rate=1.0")


def test_decay_in_the_gradient_does_not_follow_the_learning_rate():
    found = space(*LARS)
    assert found.carried("lars").decay == 1.0
    decays = [found.recipe_of(Point("lars", rate=rate, decay=2.0)).optimizer["weight_decay"] for rate in (0.5, 1.0)]
    assert decays == [0.0002, 0.0002]
    # Nothing is known of another kind of decay, and the coefficient stays.
    assert found.recipe_of(found.carried("adamw")).optimizer["weight_decay"] == 0.0001


def test_the_decay_kept_is_searched():
    for batch_size, least in ((512, 0.25), (1408, 44**-0.5)):
        found = space(*ADAMW, batch_size=batch_size)
        assert found.within("adamw", {"decay": 0.0}).decay == pytest.approx(least)
        assert found.within("adamw", {"decay": 1.0}).decay == pytest.approx(4.0)


def test_learning_rates_lie_between_the_one_kept_and_the_linear_rules():
    few, many = (
        [each.rate for each in space(*ADAMW, batch_size=batch_size, search=("rate",)).points(40)]
        for batch_size in (1024, 1408)
    )
    # 32 and 44 times the tuned batch; the square root of these is on each side.
    for rates, times in ((few, 32), (many, 44)):
        assert 0.7 * times < max(rates) / min(rates) <= times
    other = [each.rate for each in space(batch_size=1024, optimizers=("muon",), search=("rate",)).points(40)]
    assert max(other) / min(other) <= 16.0


def test_beyond_the_end_of_a_range_lies_a_wider_one():
    found = space()
    points = [Point("momentum", rate) for rate in (0.5, 1.0, 2.0)]
    assert found.beyond(points[1], points) is None
    assert found.beyond(points[2], points).rate == 4.0
    assert found.beyond(points[0], points).rate == 0.25
    assert space(search=("half_life",)).beyond(points[2], points) is None


def test_a_length_in_steps_is_of_as_many_examples():
    found = space("duration=1796 steps")
    assert found.total_steps == pytest.approx(112, abs=1)
    assert "examples" in found.config_of(found.carried("momentum")).duration


@pytest.mark.parametrize(
    "fields, options, message",
    [
        ((), {"batch_size": 16}, "tuned at batch 32, for batch 16; expected .* a batch of the tuned one or more"),
        (("schedule.learning_rate=0.0",), {}, "expected a tuned learning rate above 0"),
        ((), {"optimizers": ("moun",)}, "optimizer 'moun' is unknown. Did you mean 'muon'"),
        ((), {"optimizers": ()}, "no optimizer; expected one name or more"),
        ((), {"search": ("rates",)}, "search has 'rates'. Did you mean 'rate'"),
        (("ramp.name=doubling", "ramp.to=64", "ramp.over=2 epochs"), {}, "a batch ramp; expected one with a single"),
    ],
)
def test_what_cannot_be_carried_is_refused(fields, options, message):
    with pytest.raises(InputError, match=message):
        space(*fields, **options)
