import fractions
import math

import numpy as np
import pytest

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), fractions.Fraction(2), np.float16(2)]
)
def test_numbers_of_python_and_numpy_become_pythons(value):
    assert type(arguments.number("x", value, least=0)) is float and arguments.number("x", value) == 2.0
    assert type(arguments.integer("n", value, least=1)) is int and arguments.integer("n", value) == 2


@pytest.mark.parametrize("value", ["2", None, True, np.True_, [2], np.array([2]), 2j, {}, "x" * 1000])
@pytest.mark.parametrize("check", [arguments.number, arguments.integer])
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(InputError, match="^Owner: x=.* is not a number; expected a .*number.*$") as error:
        check("x", value, owner="Owner")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), 10**400])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(InputError, match="x=.* is out of range; expected a finite number"):
        arguments.number("x", value)
    with pytest.raises(InputError, match="x=.* is not a whole number; expected a whole number|x=.*out of range"):
        arguments.integer("x", value, most=10)


@pytest.mark.parametrize(
    "value, bounds, words",
    [
        (-1, {"least": 0}, "a finite number of 0 or more"),
        (0, {"above": 0}, "a finite number above 0"),
        (1, {"below": 1}, "a finite number below 1"),
        (2, {"most": 1.5}, "a finite number at most 1.5"),
        (2, {"least": 0, "most": 1}, "a finite number of 0 or more and at most 1"),
        (1, {"least": 0, "below": 1}, "a finite number of 0 or more and below 1"),
        (0, {"above": 0, "below": 1}, "a finite number above 0 and below 1"),
        (0, {"above": 0, "expected": "a learning rate above 0"}, "a learning rate above 0"),
    ],
)
def test_the_bounds_are_in_the_message(value, bounds, words):
    with pytest.raises(InputError, match=f"x={value} is out of range; expected {words}\\.$"):
        arguments.number("x", value, **bounds)


@pytest.mark.parametrize(
    "value, bounds, said",
    [
        (32.5, {"least": 1}, "n=32.5 is not a whole number; expected a whole number of 1 or more"),
        (np.int64(0), {"least": 1}, "n=0 is out of range; expected a whole number of 1 or more"),
        (9, {"least": 1, "most": 8}, "n=9 is out of range; expected a whole number of 1 or more and at most 8"),
    ],
)
def test_counts(value, bounds, said):
    assert arguments.integer("n", 1e3, least=0) == 1000
    with pytest.raises(InputError, match=said):
        arguments.integer("n", value, **bounds)


def test_flags_and_names():
    assert arguments.flag("f", np.True_) is True
    with pytest.raises(InputError, match="f=1 is neither True nor False"):
        arguments.flag("f", 1)
    assert arguments.one_of("decay", "cosine", ("cosine", "linear")) == "cosine"
    with pytest.raises(InputError, match="decay='cosin' is unknown. Did you mean 'cosine'?"):
        arguments.one_of("decay", "cosin", ("cosine", "linear"))
    with pytest.raises(InputError, match=r"Recipe: decay=\['cosine'\] is unknown"):
        arguments.one_of("decay", ["cosine"], ("cosine", "linear"), owner="Recipe")


def test_sequences():
    assert arguments.integers("n", np.array([1, 2])) == [1, 2] and arguments.items("x", (3,)) == [3]
    for value in (3, "3", None, {3: 4}, np.array(3)):
        with pytest.raises(InputError, match="n=.* is not a sequence; expected a list or a tuple"):
            arguments.integers("n", value)
    with pytest.raises(InputError, match=r"n\[1\]=0 is out of range; expected a whole number of 1 or more"):
        arguments.integers("n", [1, 0], least=1)
