"""All instruments in two real processes under MultiWorkerMirroredStrategy."""

import json

import numpy as np
import pytest

from tests.conftest import final_weights
from tests.distributed.test_multi_worker import cluster
from tfbigbatch.runs.metrics_log import read_rows

WATCHED = [
    "--config.instruments.probe.micro_batch_size=8",
    "--config.instruments.probe.micro_batches=2",
    "--config.instruments.noise_scale.enabled=true",
    "--config.instruments.noise_scale.every=5 steps",
    "--config.instruments.sharpness.enabled=true",
    "--config.instruments.sharpness.every=10 steps",
    "--config.instruments.sharpness.iterations=3",
    "--config.instruments.layers.enabled=true",
    "--config.instruments.layers.every=5 steps",
    "--config.instruments.layers.histograms=true",
]


@pytest.mark.slow  # Four processes.
def test_two_workers_measure_and_train_as_unwatched(tmp_path):
    for name, flags in (("plain", []), ("watched", WATCHED)):
        outcomes = cluster(2, *flags, f"--model_dir={tmp_path}/{name}")
        assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    plain, watched = final_weights(tmp_path / "plain"), final_weights(tmp_path / "watched")
    for name, value in plain.items():
        np.testing.assert_array_equal(watched[name], value, err_msg=name)
    seen = {}
    for row in read_rows(tmp_path / "watched" / "metrics.jsonl"):
        for name, value in row.items():
            if "/" in name:
                seen.setdefault(name.split("/")[0], set()).add(row["step"])
                assert np.isfinite(value), (name, row["step"])
    assert seen == {"noise_scale": {5, 10, 15, 20}, "sharpness": {10, 20}, "layers": {5, 10, 15, 20}}
    status = json.loads((tmp_path / "watched" / "status.json").read_text())
    assert status["status"] == "done" and status["step"] == 20
