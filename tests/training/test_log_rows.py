"""The rows of a run's training: means over their windows."""

import numpy as np
import pytest

from tests.helpers.runs import curve
from tfbigbatch import train


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
