import math

from tests.helpers import made_runs
from tfbigbatch.run_directory.metrics_log import Scalars


def test_series_are_told_apart_by_split_and_sorted(tmp_path):
    made_runs.write(tmp_path, {}, train={4: {"loss": 1.0, "layers/x/a/b": 2.0}, 2: {"loss": None}}, curve={3: 0.5})
    seen = Scalars(str(tmp_path))
    assert seen.names("train") == ["loss", "layers/x/a/b"] and seen.names("eval") == ["accuracy"]
    assert list(seen.series("train", "loss")) == [2, 4] and math.isnan(seen.series("train", "loss")[2])
    assert seen.last("train", "loss") == (1.0, 4) and seen.last("eval", "loss") == (None, None)
    assert seen.below("train", "layers/x/") == {"a/b": {4: 2.0}} and seen.last_step == 4


def test_a_line_that_is_being_written_is_left_out(tmp_path):
    made_runs.write(tmp_path, {}, curve={3: 0.5})
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 9, "split": "ev')
    assert Scalars(str(tmp_path)).series("eval", "accuracy") == {3: 0.5}
