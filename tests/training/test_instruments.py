"""The instruments as a config's fields switch them on."""

import os

import pytest
import tensorflow as tf

from tests.helpers.runs import curve, final_weights, resumes
from tfbigbatch import train
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.training.instruments import check_instruments, optimizer_fields

ALL = {
    "probe": {"micro_batch_size": 8, "micro_batches": 2},
    "noise_scale": {"enabled": True, "every": "5 steps"},
    "sharpness": {"enabled": True, "every": "12 steps", "eigenvalues": 1, "iterations": 3, "trace_samples": 2},
    "layers": {"enabled": True, "every": "10 steps", "histograms": True},
}


def tags_of(folder):
    """The tags of all files of events: the scalars after the last evaluation are in a second one."""
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if "tfevents" in name]
    events = (event for path in paths for event in tf.compat.v1.train.summary_iterator(path))
    return {value.tag for event in events for value in event.summary.value}


@pytest.mark.slow
def test_a_run_with_all_of_them(tmp_path, quick_config):
    config = quick_config(optimizer={"name": "lamb"}, accumulation_steps=2)
    config.instruments.update(ALL)
    train.run(config, model_dir=str(tmp_path))
    seen = {}
    for row in read_rows(tmp_path / "metrics.jsonl"):
        for name in row:
            group, given, _ = name.partition("/")
            if given:
                seen.setdefault(group, set()).add(row["step"])
    assert seen == {"noise_scale": {5, 10, 15, 20}, "sharpness": {12, 24}, "layers": {10, 20}}
    names = {name for row in read_rows(tmp_path / "metrics.jsonl") for name in row}
    kinds = ("weight_norm", "update_norm", "gradient_norm", "update_to_weight", "trust_ratio")
    assert {f"layers/{kind}/logits/kernel" for kind in kinds} <= names
    assert {"noise_scale/trace", "sharpness/eigenvalue_1", "sharpness/trace_error", "sharpness/rise"} <= names
    tags = tags_of(tmp_path / "instruments")
    assert "layers/weights/logits/kernel" in tags
    assert names & tags_of(tmp_path / "train") >= {"sharpness/trace", "layers/trust_ratio/logits/kernel"}


@pytest.mark.slow  # Three runs; what else a resumed run holds, tests/test_train.py asks.
def test_stopped_and_resumed_they_see_the_same(tmp_path, quick_config):
    config = quick_config(optimizer={"name": "lamb"}, accumulation_steps=2)
    config.instruments.update({name: ALL[name] for name in ("noise_scale", "layers")})
    resumes(tmp_path, config, 9, 17)
    assert any("noise_average" in name for name in final_weights(tmp_path / "whole"))
    rows = curve(tmp_path / "whole")
    assert curve(tmp_path / "parts") == rows and sum(any("/" in name for name in row) for row in rows) == 6


@pytest.mark.parametrize(
    "fields, carries_state, message",
    [
        ({"noise_scale": {"enabled": True}}, False, "this run has one. Set accumulation_steps=2"),
        ({"noise_scale": {"source": "step"}}, False, "source='step' is unknown. Did you mean 'steps'"),
        ({"sharpness": {"enabled": True}}, True, "instruments.sharpness.enabled: its probe begins anywhere"),
        ({"noise_scale": {"enabled": True, "source": "probe"}}, True, "instruments.noise_scale.enabled: its probe"),
    ],
)
def test_what_cannot_be_measured_is_refused(fields, carries_state, message):
    config = new_config("digits_lstm")
    config.instruments.update(fields)
    with pytest.raises(ValueError, match=message):
        check_instruments(config, carries_state, replicas=1)


def test_trust_ratios_are_kept_where_they_are_read():
    config = new_config("digits_lstm")
    config.optimizer = {"name": "lamb"}
    assert optimizer_fields(config) == {"name": "lamb"}
    config.instruments.layers.enabled = True
    assert optimizer_fields(config) == {"name": "lamb", "layer_statistics": True}
    config.instruments.layers.trust_ratio = False
    assert optimizer_fields(config) == {"name": "lamb"}
    for without in ({"name": "momentum", "momentum": 0.9}, {"name": "muon"}):
        config.optimizer = without
        assert "layer_statistics" not in optimizer_fields(config)
    config.instruments.layers.trust_ratio = True
    for vectors, has in (("lamb", True), ({"step": "lamb"}, True), ({"beta_2": 0.9}, False), ("adam", False)):
        config.optimizer = {"name": "muon", "vectors": vectors}
        assert ("layer_statistics" in optimizer_fields(config)) is has
