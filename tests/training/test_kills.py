"""A run of all that has state, in float16 over two replicas, is killed anywhere and ends in the same bits.

tests/test_train.py and test_ramps.py stop the others: ramps, phases, rollbacks, rounds.
"""

import os

import pytest

from tests.conftest import reduce_on_one_device
from tests.helpers.repository import ROOT
from tests.helpers.runs import assert_same_bits, curve, killing, stopping
from tfbigbatch import train
from tfbigbatch.config import load_config
from tfbigbatch.errors import Preempted

# Batch normalisation and dropout are the network's.
EVERYTHING = {
    "mixed_precision": "float16",
    "accumulation_steps": 2,
    "optimizer": {"name": "lamb", "use_ema": True, "ema_momentum": 0.9},
    "phases": ({"duration": "10 steps"}, {"duration": "6 steps", "batch_size": 128, "accumulation_steps": 4}),
}


def config_of(**fields):
    config = load_config(os.path.join(ROOT, "tests/helpers/normalised.py"))
    intervals = {"log_every": "3 steps", "evaluate_every": "5 steps", "checkpoint_every": "4 steps"}
    for name, value in {"simulated_replicas": 2, **intervals, **fields}.items():
        config[name] = value
    return config


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of the run that nothing disturbs."""
    directory = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as monkeypatch:
        reduce_on_one_device(monkeypatch)
        train.run(config_of(**EVERYTHING), model_dir=str(directory))
    return directory


@pytest.mark.usefixtures("one_step_a_call", "simulated_replicas")
@pytest.mark.parametrize(
    "arguments, error",
    [
        pytest.param(killing("step 3"), KeyboardInterrupt, marks=pytest.mark.slow),
        pytest.param(killing("evaluated batch 1"), KeyboardInterrupt, marks=pytest.mark.slow),
        (stopping("evaluated batch 1"), Preempted),
        pytest.param(killing("the beginning of the checkpoint of step 8"), KeyboardInterrupt, marks=pytest.mark.slow),
        (killing("step 13"), KeyboardInterrupt),
    ],
    ids=["before a checkpoint", "in an evaluation", "stopped in one", "before a save", "in the second phase"],
)
def test_killed_anywhere_it_ends_in_the_same_bits(tmp_path, whole, arguments, error):
    with pytest.raises(error):
        train.run(config_of(**EVERYTHING), model_dir=str(tmp_path), **arguments)
    train.run(config_of(**EVERYTHING), model_dir=str(tmp_path))
    assert_same_bits(whole, tmp_path)
    assert curve(tmp_path) == curve(whole)
