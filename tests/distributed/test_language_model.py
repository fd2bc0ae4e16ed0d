"""A language model in real processes: every worker's states are in the chief's checkpoint."""

import json

import numpy as np
import pytest

from tests.conftest import final_weights
from tests.distributed.test_multi_worker import cluster
from tests.test_command_line import command, finish

# A smoke run stops at step 4, within an epoch, and resumes.
FLAGS = ["--config=experiments/ptb/small.py", "--config.model.layers=1", "--quick"]


@pytest.mark.slow
def test_two_workers_resume_with_their_states_and_end_where_one_does(tmp_path):
    outcomes = cluster(2, f"--model_dir={tmp_path}/two", common=FLAGS)
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    assert "resume     from the checkpoint of step 4" in outcomes[0][1]
    code, _, err = finish(command(*FLAGS, f"--model_dir={tmp_path}/one"))
    assert code == 0, err
    one, two = final_weights(tmp_path / "one"), final_weights(tmp_path / "two")
    assert sum("carried_state" in name for name in one) == 2
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    metrics = [json.loads((tmp_path / run / "status.json").read_text())["metrics"] for run in ("one", "two")]
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-5)
