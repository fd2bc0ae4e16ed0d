import json
import math

import pytest

from tfbigbatch import optimizers
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.directory import RunDirectory, read_json
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.training.log_rows import MetricsLog


@pytest.mark.parametrize("matrices", [(("logits.kernel$", "vector"), ("lstm", "gates")), {"logits": "vector"}])
def test_what_is_a_matrix_survives_config_json(tmp_path, matrices):
    config = new_config("digits_lstm")
    config.optimizer = {"name": "muon", "treatments": matrices, "newton_schulz": {"steps": 3}}
    RunDirectory(str(tmp_path)).open(config.to_dict(), [])
    assert RunDirectory(str(tmp_path)).check(config.to_dict()) == []
    stored = read_json(tmp_path / "config.json")["config"]["optimizer"]
    pairs = list(dict(matrices).items())
    made = optimizers.get(stored, keras="keras3")
    assert made.treatments == optimizers.get("muon", treatments=pairs).treatments and made.newton_schulz.steps == 3


def test_what_a_run_keeps_is_written_once_and_is_not_another(tmp_path):
    directory = RunDirectory(str(tmp_path))
    directory.check_kept({"vocabulary.model": b"one"})
    directory.keep({"vocabulary.model": b"one"})
    directory.keep({"vocabulary.model": b"one"})
    directory.check_kept({"vocabulary.model": b"one"})
    with pytest.raises(
        ValueError, match="vocabulary.model is not the vocabulary.model of the data: the run began with"
    ):
        directory.check_kept({"vocabulary.model": b"two"})
    assert (tmp_path / "vocabulary.model").read_bytes() == b"one"


@pytest.mark.parametrize("content, said", [("{half", "is not JSON in UTF-8"), ("null", "holds nothing but null")])
def test_a_damaged_json_file_is_named(tmp_path, content, said):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=f"config.json {said}"):
        RunDirectory(str(tmp_path)).check({})


def test_rows_past_the_resumed_step_and_a_torn_line_are_dropped(tmp_path):
    directory = RunDirectory(str(tmp_path))
    log = MetricsLog(directory)
    for step in (4, 8, 12):
        log.write("train", step, {"loss": 1.0 / step})
    log.close()
    with open(directory.metrics, "a") as file:
        file.write('{"step": 16, "spl')
    MetricsLog(directory).resume(8)
    rows = read_rows(directory.metrics)
    assert [row["step"] for row in rows] == [4, 8] and rows[0]["loss"] == 0.25


def test_only_the_chief_writes(tmp_path):
    directory = RunDirectory(str(tmp_path / "run"), is_chief=False)
    directory.open({}, [])
    directory.write_status("running", step=1)
    directory.keep({"vocabulary.model": b"one"})
    directory.write_translations("test", 1, ["a"])
    MetricsLog(directory).write("train", 1, {"loss": 1.0})
    assert not (tmp_path / "run").exists()


def test_a_metric_that_is_not_finite_is_null_in_status_json_and_read_as_nan(tmp_path):
    directory = RunDirectory(str(tmp_path))
    directory.write_status("done", step=3, metrics={"accuracy": 0.03, "perplexity": math.inf, "loss": math.nan})
    written = json.loads((tmp_path / "status.json").read_text(), parse_constant=pytest.fail)
    assert written["metrics"] == {"accuracy": 0.03, "perplexity": None, "loss": None}
    assert directory.status()["metrics"] == pytest.approx(
        {"accuracy": 0.03, "perplexity": math.nan, "loss": math.nan}, nan_ok=True
    )


@pytest.mark.parametrize(
    "content",
    [
        "a run",
        {},
        {"config": {"task": 3}},
        {"config": {"task": "digits_lstm", "batch_size": 10**30}},
        {"config": {"task": "digits_lstm"}, "extensions": [{"duration": "2 steps", "step": 2}]},
        {"config": {"task": "digits_lstm"}, "init_from": "run"},
    ],
)
def test_a_damaged_config_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="config.json is not of a run directory, or it is damaged"):
        RunDirectory(str(tmp_path)).content()


@pytest.mark.parametrize(
    "fields",
    [
        {"step": "3"},
        {"seconds": True},
        {"best": 3},
        {"best": {"metric": "accuracy", "step": 2, "value": None}},
        {"metrics": {"accuracy": "high"}},
        {"metrics": {"accuracy": 10**400}},
    ],
)
def test_a_damaged_status_is_named(tmp_path, fields):
    (tmp_path / "status.json").write_text(json.dumps({"status": "done", "step": 3, **fields}))
    with pytest.raises(ValueError, match="status.json is not the status.json of a run, or it is damaged"):
        RunDirectory(str(tmp_path)).status()
