import pytest

from tfbigbatch.config import new_config
from tfbigbatch.training.rollbacks import Rollbacks


def config(**fields):
    made = new_config("digits_lstm")
    made.divergence.update(fields)
    return made


def test_each_rollback_leaves_out_its_window_and_slows_all_rates(tmp_path):
    made = config(rollbacks=2, rate_factor=0.5)
    made.schedule.learning_rate = 0.8
    made.phases = ({"duration": "5 steps"}, {"schedule.learning_rate": 0.4})
    rollbacks = Rollbacks(str(tmp_path), made)
    assert (rollbacks.skipped, rollbacks.left(), rollbacks.slowed(made)) == (0, 2, made)
    rollbacks.add(30, 20, "loss became nan")
    rollbacks.add(55, 40, "loss became inf")
    for found in (rollbacks, Rollbacks(str(tmp_path), made)):
        assert (found.skipped, found.left(), found.rate_factor) == (25, 0, 0.25)
        slowed = found.slowed(made)
        assert slowed.schedule.learning_rate == pytest.approx(0.2)
        assert [dict(phase) for phase in slowed.phases] == [{"duration": "5 steps"}, {"schedule.learning_rate": 0.1}]
        assert "from step 55 to 40, 15 batches left out, rates x0.5: loss became inf" in found.lines()[1]
    assert made.schedule.learning_rate == 0.8
