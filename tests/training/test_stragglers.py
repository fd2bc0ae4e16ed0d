import json
import socket

import numpy as np
import pytest

from tfbigbatch.training.stragglers import NameSlowestWorker, waits


def test_the_slowest_worker_is_the_one_that_reduces_shortest():
    found = waits([4.5, 0.5, 3.5, 4.5], 10.0)
    assert found.slowest == 1 and found.fractions == [0.4, 0.0, 0.3, 0.4]
    assert found.of_others == pytest.approx(1.1 / 3)
    assert max(waits([30.0, 0.0], 10.0).fractions) == 1.0


class Reduction:
    def take(self):
        return 1e-9


class Log:
    def __init__(self):
        self.rows = []

    def write(self, split, step, scalars):
        self.rows.append((split, step, scalars))


def test_a_line_names_the_slowest_worker_and_its_host_once():
    lines, log, others = [], Log(), [1e9, 1e9]

    def gather(mine):
        return np.stack([mine, mine if len(mine) > 1 else np.array([others[0]])])

    callback = NameSlowestWorker(Reduction(), gather, log, every=2, say=lines.append)
    callback.on_epoch_begin(0)
    for step in range(1, 9):
        callback.step = step
        callback.on_steps(step - 1, step, {"loss": 1.0})
    assert lines == [
        f"slowest    worker 0 ({socket.gethostname()}) at step 4: the others waited 100% of the time for it"
    ]
    # The first window, of the compilation, has no row.
    assert [step for _, step, _ in log.rows] == [4, 6, 8]
    assert log.rows[0][2] == {"waited/worker_0": 0.0, "waited/worker_1": 1.0, "slowest_worker": 0.0}
    assert json.dumps(callback.slowest)
    others[0] = 1e-9
    callback.on_steps(9, 10, {})
    assert len(lines) == 1 and callback.slowest["others_waited"] == 0.0
