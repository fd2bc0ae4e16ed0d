import numpy as np
import pytest

from tests.helpers import made_runs
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.run_plots import limits, panels_of, run_curves, trust_map
from tfbigbatch.runs.metrics_log import Scalars


def scalars(run):
    return Scalars(run.directory)


def row(directory, name="LEGW", batch_size=32, **options):
    made_runs.write(directory, {}, **options)
    return Row(name, {"batch_size": batch_size}, [Run(str(directory), 0)])


def test_each_scalar_has_a_panel_and_of_the_instruments_those_that_tell_of_a_run(tmp_path):
    train = {2: {"loss": 1.0, "epoch": 0.1, "learning_rate": 0.1, "sharpness/trace": 3.0, "layers/weight_norm/a": 1.0}}
    row(tmp_path, train=train, curve={2: 0.5})
    assert panels_of([Scalars(str(tmp_path))]) == [
        ("eval", "accuracy", "accuracy, evaluation"),
        ("train", "loss", "loss, training"),
        ("train", "learning_rate", "learning rate"),
        ("train", "sharpness/trace", "trace of the Hessian"),
    ]


# Names that matplotlib would take for a formula, or leave out of a legend; a loss that blew up; very unequal runs.
@pytest.mark.parametrize("empty", [False, True])
def test_they_are_drawn_whatever_there_is(tmp_path, empty):
    rows = [row(tmp_path / "none", "not begun")]
    if not empty:
        rows.append(row(tmp_path / "a", r"$\frac{$", train={1: {"loss": 1.0}, 2: {"loss": None}}, curve={2: 0.5}))
        train = {step: {"loss": 10.0**step, "a$_$b": 1.0, r"cost ($\frac in $)": 2.0} for step in range(1, 99)}
        rows.append(row(tmp_path / "b", "_" * 70, 512, train=train))
    run_curves(str(tmp_path / "plot.png"), rows, scalars, "a title")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_one_colour_is_one_ratio_in_all_maps():
    maps = [{"a": {1: 0.1, 2: 0.0}}, {"b": {1: 5.0, 2: float("inf"), 3: float("nan")}}]
    assert limits(maps) == (0.1, 5.0)
    for maps in ([{"a": {1: 1.0}}], [], [{"a": {1: 0.0}}]):
        least, largest = limits(maps)
        assert 0.0 < least == 1.0 < largest


@pytest.mark.parametrize("variables, looks", [(1, 1), (70, 3)])
def test_it_is_drawn_with_gaps(tmp_path, variables, looks):
    layers = {
        f"layer_{number}/$kernel$": {10 * (look + 1): 0.5 + number for look in range(looks)}
        for number in range(variables)
    }
    layers["layer_0/$kernel$"][10] = 0.0
    layers["late"] = {10 * looks: float("nan")}
    trust_map(str(tmp_path / "map.png"), layers, "a title", *limits([layers]))
    import matplotlib.image

    picture = matplotlib.image.imread(tmp_path / "map.png")
    assert picture.ndim == 3 and np.ptp(picture) > 0.5
