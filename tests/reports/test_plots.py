import os

import pytest

from tests.helpers import made_runs
from tfbigbatch.reports import figure_style, plots
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.summary import summarise
from tfbigbatch.runs.metric import Metric

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
    # An accuracy of 1 has no error to draw on a log scale: it is the upper edge.
    assert low < min(values) and max(values) <= max(high, 1.0) and high > sorted(values)[-2] - 1e-9
    assert all(0 <= point <= axes.bbox.y1 for _, point in axes.transData.transform(list(enumerate(values))))


def test_the_ends_of_curves_can_be_told_apart_beside_their_beginnings(axes):
    figure_style.value_scale(axes, [0.1, 0.98, 0.99], ACCURACY)
    bottom, worse, better = (point for _, point in axes.transData.transform([(0, 0.1), (0, 0.98), (0, 0.99)]))
    assert better - worse > 0.1 * (better - bottom)


def test_the_first_evaluations_are_in_the_picture(tmp_path, monkeypatch):
    limits = []
    monkeypatch.setattr(plots.figure_style, "legend_beside", lambda axes: limits.append(axes.get_ylim()))
    made_runs.write(tmp_path, {}, metric="perplexity", curve={10: 9000.0, 100: 700.0, 1000: 120.0, 2000: 115.0})
    row = Row("LEGW", {"batch_size": 32}, [Run(str(tmp_path), 0)])
    plots.curves_by_batch(str(tmp_path / "plot.png"), [row], PERPLEXITY, "a title")
    [(low, high)] = limits
    assert low < 115.0 and high > 9000.0


def test_names_that_are_no_formulas_are_drawn(tmp_path):
    name = r"a$_$b ($\frac in $)"
    metric = Metric(name)
    made_runs.write(tmp_path, {}, 0.5, metric=name)
    row = Row(name, {"batch_size": 32, "schedule": {"learning_rate": 0.1}}, [Run(str(tmp_path), 0)])
    summary = summarise([row], metric, 0.3)
    paths = [str(tmp_path / f"{number}.png") for number in range(4)]
    plots.against_batch(paths[0], summary, metric, name, name)
    plots.curves_by_batch(paths[1], [row], metric, name, name)
    plots.against_learning_rate(paths[2], summary, metric, name)
    plots.steps_to_target(paths[3], summary, metric, name, 0.3, name)
    assert all(os.path.exists(path) for path in paths)
