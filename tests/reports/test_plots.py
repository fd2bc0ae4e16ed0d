import pytest

from tfbigbatch.reports.plots import zoomed
from tfbigbatch.runs.metric import Metric

ACCURACY, PERPLEXITY = Metric("accuracy"), Metric("perplexity", higher_is_better=False)


def test_the_axis_tells_good_values_apart_and_lets_bad_ones_fall_off():
    low, high = zoomed([0.99, 0.985, 0.98, 0.97, 0.6, 0.1], ACCURACY)
    assert 0.9 < low < 0.97 and 0.99 < high < 1.0
    low, high = zoomed([110.0, 115.0, 118.0, 130.0, 5000.0], PERPLEXITY)
    assert 100 < low < 110 and 118 < high < 200


@pytest.mark.parametrize("metric", [ACCURACY, PERPLEXITY])
@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5], [0.0, 0.0], [0.9, 0.9, 0.2]])
def test_there_is_always_an_axis(metric, values):
    low, high = zoomed(values, metric)
    assert low < high and all(low < metric.best(values) < high for _ in values)


def test_no_value_falls_off_where_all_are_close():
    low, high = zoomed([0.97, 0.98], ACCURACY, edges=[0.99])
    assert low < 0.97 and high > 0.99
