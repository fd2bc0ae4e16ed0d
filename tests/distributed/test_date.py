"""DATE in real processes: every worker decides the same, none waits for another, one says it."""

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.date_worker import trained
from tests.distributed.test_optimizers import run_together

WORKERS = 2


@pytest.mark.slow
def test_workers_decide_the_same(tmp_path):
    run_together(WORKERS, tmp_path, script="tests.distributed.date_worker")
    first, second = (dict(np.load(tmp_path / f"worker{i}.npz")) for i in range(WORKERS))
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
    spoken = [(tmp_path / f"worker{i}.log").read_text().count("DATE at step") for i in range(WORKERS)]
    assert spoken == [len(first["steps"]), 0] and spoken[0] > 1
    # Batch statistics are each replica's own: near what one process decides, not its bits.
    _, alone = trained(tf.distribute.get_strategy())
    assert first["gains"][0] < 1.0 and alone.decisions[0]["gain"] < 1.0
    assert all(np.isfinite(value).all() for value in first.values())
