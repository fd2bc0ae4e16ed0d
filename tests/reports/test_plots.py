import math

import numpy as np
import pytest

from tests.helpers import made_runs
from tfbigbatch.reports import figure_style, plots
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.table import summarise
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.run_directory.metrics_log import Scalars

ACCURACY, PERPLEXITY = Metric("accuracy"), Metric("perplexity", higher_is_better=False)


@pytest.fixture
def axes():
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


@pytest.mark.parametrize(
    "metric, values",
    [
        (ACCURACY, [0.1, 0.6, 0.97, 0.985, 0.99]),
        (ACCURACY, [0.1, 0.5, 1.0]),
        (ACCURACY, [0.05, 0.3, 0.35]),
        (PERPLEXITY, [9000.0, 800.0, 130.0, 118.0, 115.0]),
        (PERPLEXITY, [4.0, 3.0]),
        (PERPLEXITY, [2.0, 2.0]),
    ],
)
def test_the_axis_of_a_curve_has_the_whole_curve(axes, metric, values):
    figure_style.value_scale(axes, values, metric)
    axes.plot(values)
    axes.figure.canvas.draw()
    low, high = axes.get_ylim()
    # An accuracy of 1 has no error to draw on a logit scale: it is beyond the upper edge.
    assert low < min(values) and max(value for value in values if value < 1.0 or metric is PERPLEXITY) < high


def run_row(directory, name="LEGW", batch_size=32, **options):
    made_runs.write(directory, {}, **options)
    return Row(name, {"batch_size": batch_size, "schedule": {"learning_rate": 0.1}}, [Run(str(directory), 0)])


def test_names_that_are_no_formulas_are_drawn(tmp_path):
    name = r"a$_$b ($\frac in $)"
    metric = Metric(name)
    row = run_row(tmp_path, name, value=0.5, metric=name)
    summary = summarise([row], metric, 0.3)
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    plots.against_batch(str(paths[0]), summary, metric, name, name)
    plots.curves_by_batch(str(paths[1]), [row], metric, name, name)
    plots.against_batch(str(paths[2]), summary, metric, name, name, 0.3)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_each_scalar_has_a_panel_and_of_the_instruments_those_that_tell_of_a_run(tmp_path):
    train = {2: {"loss": 1.0, "epoch": 0.1, "learning_rate": 0.1, "sharpness/trace": 3.0, "layers/weight_norm/a": 1.0}}
    run_row(tmp_path, train=train, curve={2: 0.5})
    assert plots.panels_of([Scalars(str(tmp_path))]) == [
        ("eval", "accuracy", "accuracy, evaluation"),
        ("train", "loss", "loss, training"),
        ("train", "learning_rate", "learning_rate, training"),
        ("train", "sharpness/trace", "trace of the Hessian"),
    ]


# Names that matplotlib would take for a formula, or leave out of a legend; a loss that blew up; very unequal runs.
@pytest.mark.parametrize("empty", [False, True])
def test_runs_are_drawn_whatever_there_is(tmp_path, empty):
    rows = [run_row(tmp_path / "none", "not begun")]
    if not empty:
        rows.append(run_row(tmp_path / "a", r"$\frac{$", train={1: {"loss": 1.0}, 2: {"loss": None}}, curve={2: 0.5}))
        train = {step: {"loss": 10.0**step, "a$_$b": 1.0, r"cost ($\frac in $)": 2.0} for step in range(1, 99)}
        rows.append(run_row(tmp_path / "b", "_" * 70, 512, train=train))
    plots.run_curves(str(tmp_path / "plot.png"), rows, "a title")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("variables, looks", [(1, 1), (70, 3)])
def test_trust_ratios_are_drawn_with_gaps(tmp_path, variables, looks):
    layers = {
        f"layer_{number}/$kernel$": {10 * (look + 1): 0.5 + number for look in range(looks)}
        for number in range(variables)
    }
    layers["layer_0/$kernel$"][10] = 0.0
    layers["late"] = {10 * looks: math.nan}
    plots.trust_map(str(tmp_path / "map.png"), layers, "a title")
    import matplotlib.image

    picture = matplotlib.image.imread(tmp_path / "map.png")
    assert picture.ndim == 3 and np.ptp(picture) > 0.5
