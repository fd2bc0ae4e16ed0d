"""The rows of a run's training: means over their windows, and what is not finite."""

import numpy as np
import pytest

from tests.helpers.runs import curve
from tfbigbatch import train
from tfbigbatch.errors import DivergedError
from tfbigbatch.training.log_rows import TrainingRows


def test_rows_are_the_means_of_their_windows(tmp_path, quick_config):
    rows = {}
    for every in (1, 5):
        train.run(quick_config(log_every=f"{every} steps"), model_dir=str(tmp_path / str(every)))
        rows[every] = [row for row in curve(tmp_path / str(every)) if row["split"] == "train"]
    single = {row["step"]: row for row in rows[1]}
    # A row ends where an evaluation, after 12 steps, or a checkpoint, after 8, needs it.
    ends = [5, 8, 10, 12, 15, 16, 20, 24]
    assert list(single) == list(range(1, 25)) and [row["step"] for row in rows[5]] == ends
    for row, begin in zip(rows[5], [0, *ends]):
        window = [single[step] for step in range(begin + 1, row["step"] + 1)]
        for name in ("loss", "accuracy"):
            assert row[name] == pytest.approx(np.mean([each[name] for each in window]), rel=1e-5)
        assert row["learning_rate"] == window[-1]["learning_rate"]
        assert row["epoch"] == pytest.approx(row["step"] * 48 / 1437)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_metric_that_is_not_finite_is_named_with_its_window(bad):
    rows = TrainingRows(None, None, 3)
    rows.check_finite(6, {"loss": 1.0})
    with pytest.raises(DivergedError, match=rf"accuracy became {bad} between step 6 and step 9\."):
        rows.check_finite(9, {"loss": 1.0, "accuracy": bad})
