"""Runs with optimizer.shard_updates: the weights of a run without it, also on another number of replicas."""

import pytest

from tests.test_train import assert_same_bits
from tfbigbatch import train


@pytest.fixture
def config(quick_config, simulated_replicas):
    """An experiment with sharded updates, or without."""

    def make(replicas, shard=True, name="lamb", **fields):
        optimizer = {"name": name, "shard_updates": shard, **fields}
        return quick_config(optimizer=optimizer, simulated_replicas=replicas)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_on_as_many_replicas_it_resumes_in_the_same_bits(tmp_path, config, name):
    train.run(config(2, name=name), model_dir=str(tmp_path / "whole"))
    for stop in (9, None):
        train.run(config(2, name=name), model_dir=str(tmp_path / "parts"), stop_after=stop)
    assert_same_bits(tmp_path / "whole", tmp_path / "parts")


def test_replicas_with_steps_of_their_own_are_refused_before_training(tmp_path, config):
    with pytest.raises(ValueError, match="cannot divide the layers"):
        train.run(config(2, local_steps={"every": 4}), model_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.slow
def test_it_may_change_on_resume_but_for_adamw(tmp_path, config):
    train.run(config(2, name="adamw"), model_dir=str(tmp_path), stop_after=3)
    with pytest.raises(ValueError, match="shard_updates"):
        train.run(config(2, shard=False, name="adamw"), model_dir=str(tmp_path))
