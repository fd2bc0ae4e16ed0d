import pytest

from tfbigbatch.schedules import to_steps
from tfbigbatch.schedules.durations import parsed


@pytest.mark.parametrize(
    "duration, steps",
    [
        ("40 epochs", 112),
        ("1 epoch", 3),
        ("0.5epochs", 1),
        ("1_000 Steps", 1000),
        ("51,200 examples", 100),
        ("1 example", 1),
        ("0 steps", 0),
        ("1e3 steps", 1000),
        ("2.5e-1 epochs", 1),
    ],
)
def test_each_unit_becomes_updates(duration, steps):
    assert to_steps(duration, batch_size=512, dataset_size=1437) == steps


@pytest.mark.parametrize("exponent", [-300, -40, -5, -4, -1, 0, 5, 15, 16, 40, 300])
def test_a_number_that_python_writes_is_read(exponent):
    value = 9.741935483870967 * 10.0**exponent
    for text in (repr(value), str(value), f"{value:g}", f"{value:.4g}"):
        assert parsed(f"{text} epochs") == (float(text), "epoch")


@pytest.mark.parametrize(
    "duration",
    [
        "40",
        "2,5 epochs",
        "1,0000 steps",
        "-1 steps",
        "nan steps",
        None,
        "3 hours",
    ],
)
def test_what_does_not_name_its_unit_is_refused(duration):
    with pytest.raises(ValueError, match="log_every=.*expected a number and its unit"):
        to_steps(duration, batch_size=512, dataset_size=1437, name="log_every")
