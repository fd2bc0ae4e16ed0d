"""Runs with local steps: what is evaluated and saved, and what is refused; tests/test_train.py resumes them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import mirrored
from tests.helpers.runs import final_weights
from tfbigbatch import train
from tfbigbatch.run_directory.metrics_log import read_rows

REPLICAS = 2


@pytest.fixture
def config(quick_config, simulated_replicas):
    """An experiment on two replicas."""

    def make(local_steps, **fields):
        optimizer = {"name": "lamb", "local_steps": local_steps}
        return quick_config(optimizer=optimizer, simulated_replicas=REPLICAS, **fields)

    return make


@pytest.mark.slow
def test_the_last_weights_are_those_of_all_replicas(tmp_path, config, capsys):
    # 30 steps end in the middle of a round.
    result = train.run(config({"every": 12}, duration="30 steps"), model_dir=str(tmp_path))
    assert "rounds     of 12 local steps, 2 replicas, combined by average" in capsys.readouterr().out
    evaluated = [row for row in read_rows(tmp_path / "metrics.jsonl") if row["split"] == "eval"]
    assert [row["step"] for row in evaluated] == [12, 24, 30]
    reader = tf.train.load_checkpoint(str(tmp_path / f"checkpoints/step-{result['step']}"))
    stacked = [name for name in reader.get_variable_to_shape_map() if name.startswith("of_replicas/0/")]
    one, other = reader.get_tensor(stacked[0])
    np.testing.assert_array_equal(one, other)
    weights = final_weights(tmp_path)
    assert any(value.shape == one.shape and (value == one).all() for value in weights.values())


def test_rounds_of_one_step_of_sgd_are_data_parallelism(tmp_path, quick_config, simulated_replicas):
    ends = []
    for name, local_steps in (("local", {"every": 1}), ("parallel", None)):
        optimizer = {"name": "momentum", "momentum": 0.9, **({"local_steps": local_steps} if local_steps else {})}
        config = quick_config(optimizer=optimizer, simulated_replicas=REPLICAS, duration="12 steps")
        train.run(config, model_dir=str(tmp_path / name))
        ends.append(final_weights(tmp_path / name))
    weights = [name for name in ends[1] if name.startswith("weights/")]
    assert weights
    for name in weights:
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "local_steps, fields, message",
    [
        ({"every": 8}, {}, "evaluate_every is 12 steps, in the middle of a round of 8"),
        (
            {"every": 4},
            {"ramp__name": "doubling", "ramp__to": 96, "ramp__over": "0.2 epochs"},
            "ramp.name='doubling' with optimizer.local_steps",
        ),
        ({"every": 4, "group_size": 3}, {}, "2 replicas do not divide into groups of group_size=3"),
        ({"every": 4}, {"optimizer__shard_updates": True}, "cannot divide the layers"),
    ],
)
def test_what_cannot_have_rounds_is_refused_before_training(tmp_path, config, local_steps, fields, message):
    with pytest.raises(ValueError, match=message):
        train.run(config(local_steps, **fields), model_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_another_number_of_replicas_is_refused_with_the_reason(tmp_path, config, monkeypatch):
    made = config({"every": 4}, duration="12 steps")
    train.run(made, model_dir=str(tmp_path), stop_after=8)
    # The devices of another machine, which no field of the config tells.
    monkeypatch.setattr("tfbigbatch.training.strategy._simulated", lambda *_: (mirrored(4), "four CPUs"))
    with pytest.raises(ValueError, match=r"is of 2 replicas, each with state of its own .* and this run has 4"):
        train.run(made, model_dir=str(tmp_path))
