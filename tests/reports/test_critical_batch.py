import math

from tests.helpers import made_rows, made_runs
from tfbigbatch.reports.critical_batch import of_row
from tfbigbatch.runs.scalars import Scalars


def measured(tmp_path, train):
    made_runs.write(tmp_path, {}, train=train)
    return of_row(made_rows.row("LEGW", "running"), lambda run: Scalars(str(tmp_path)))


def noise(**values):
    return {f"noise_scale/{name}": value for name, value in values.items()}


def test_the_last_look_counts(tmp_path):
    looks = {5: noise(critical_batch_size=90.0), 10: noise(critical_batch_size=340.0, low=210.0, high=600.0)}
    found = measured(tmp_path, looks)
    assert (found.value, found.low, found.high, found.step) == (340.0, 210.0, 600.0, 10)
    assert found.shown == "LEGW at 512, update 10: 340 (210 to 600)"


def test_an_interval_may_be_open(tmp_path):
    found = measured(tmp_path, {10: noise(critical_batch_size=340.0, low=210.0)})
    assert found.high == math.inf and found.shown.endswith("(210 to ∞)")


def test_there_is_none_where_none_was_measured(tmp_path):
    assert measured(tmp_path, {10: {"loss": 1.0}}) is None
    assert measured(tmp_path, {10: noise(critical_batch_size=-3.0)}) is None
