import pytest

from tests.helpers import made_runs
from tfbigbatch.reports.collect import Row, Run
from tfbigbatch.reports.common_target import common_target
from tfbigbatch.runs.metric import Metric

ACCURACY, PERPLEXITY = Metric("accuracy"), Metric("perplexity", higher_is_better=False)


def rows(tmp_path, metric, *bests):
    """A row for each list of its seeds' values, each at twice the batch of the one before; None is of a running one."""
    made = []
    for number, values in enumerate(bests):
        runs = []
        for seed, value in enumerate(values):
            directory = tmp_path / f"{number}-{seed}"
            curve = {} if value is None else {10: value, 20: value}
            made_runs.write(directory, {}, metric=metric.name, curve=curve)
            runs.append(Run(str(directory), seed, {}, {}, {"status": "running" if value is None else "done"}))
        made.append(Row(str(number), {"batch_size": 32 * 2**number}, runs))
    return made


def test_every_seed_of_half_of_the_rows_reaches_it(tmp_path):
    assert common_target(rows(tmp_path, ACCURACY, [0.99, 0.98], [0.9766, 0.99], [0.3, 0.2]), ACCURACY) == 0.976


def test_where_less_is_better_it_is_rounded_up(tmp_path):
    assert common_target(rows(tmp_path, PERPLEXITY, [115.81], [128.02], [494.0]), PERPLEXITY) == pytest.approx(129.0)


@pytest.mark.parametrize("bests", [[[0.9]], [[0.9], [None]], [[0.9, None], [0.8]]])
def test_it_takes_two_batch_sizes_that_have_ended(tmp_path, bests):
    assert common_target(rows(tmp_path, ACCURACY, *bests), ACCURACY) is None


def test_a_metric_of_zero_is_a_target_too(tmp_path):
    assert common_target(rows(tmp_path, ACCURACY, [0.0], [0.0]), ACCURACY) == 0.0
