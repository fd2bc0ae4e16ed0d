import pytest

from tfbigbatch.scaling import RULES, Recipe

BASE = Recipe(batch_size=32, learning_rate=0.1, warmup_epochs=0.3125)


@pytest.mark.parametrize(
    "rule, learning_rate, warmup_epochs",
    [("none", 0.1, 0.3125), ("linear", 1.6, 0.3125), ("sqrt", 0.4, 0.3125), ("legw", 0.4, 5.0)],
)
def test_each_rule_at_sixteen_times_the_batch(rule, learning_rate, warmup_epochs):
    scaled = BASE.at(512, rule)
    assert scaled.batch_size == 512
    assert scaled.learning_rate == pytest.approx(learning_rate)
    assert scaled.warmup_epochs == pytest.approx(warmup_epochs)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_changes_nothing_at_the_same_batch_and_can_be_undone(rule):
    assert BASE.at(32, rule) == BASE
    back = BASE.at(4096, rule).at(32, rule)
    assert (back.learning_rate, back.warmup_epochs) == pytest.approx((BASE.learning_rate, BASE.warmup_epochs))


def test_legw_reproduces_its_authors_resnet_recipe():
    base = Recipe(batch_size=512, learning_rate=2**2, warmup_epochs=10 / 64)
    for batch_size, rate, warmup in ((1024, 2**2.5, 10 / 32), (4096, 2**3.5, 10 / 8), (8192, 2**4, 10 / 4)):
        scaled = base.at(batch_size, "legw")
        assert (scaled.learning_rate, scaled.warmup_epochs) == pytest.approx((rate, warmup))


def test_the_arithmetic_is_said():
    assert BASE.arithmetic(BASE.at(512)) == "x16 batch: rate 0.1 -> 0.4 (x4), warm-up 0.3125 -> 5 epochs"


def test_bad_recipes_are_refused():
    with pytest.raises(ValueError, match="'lgew' is unknown. Did you mean 'legw'"):
        BASE.at(64, "lgew")
    with pytest.raises(ValueError, match="batch_size is at least 1"):
        Recipe(0, 0.1)
    with pytest.raises(ValueError, match="warmup_epochs is 0 or more"):
        Recipe(32, 0.1, -1)
