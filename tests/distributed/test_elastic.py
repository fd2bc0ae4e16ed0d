"""One run on one, two and four replicas in turn: the logical CPUs of a process each."""

import signal

import numpy as np
import pytest

from tests.conftest import final_weights
from tests.test_command_line import command, finish, wait_for_step
from tfbigbatch.runs.metrics_log import read_rows

FLAGS = [
    "--config=experiments/digits/lstm_lamb.py",
    "--config.model.hidden_units=8",
    "--config.batch_size=64",
    "--config.schedule.warmup_epochs=0.0",
    # At a high rate, 140 updates make a rounding of 1e-7 a third of the loss.
    "--config.schedule.learning_rate=0.01",
    "--config.duration=300 steps",
    "--config.evaluate_every=60 steps",
    "--config.checkpoint_every=20 steps",
    "--config.log_every=5 steps",
]


@pytest.mark.slow  # Four processes and their imports.
@pytest.mark.parametrize(
    "order, flags",
    [(((0, 1), (2, 4), (4, 2)), []), (((2, 4), (4, 1), (0, 2)), ["--config.optimizer.shard_updates=True"])],
    ids=["all replicas update", "sharded updates"],
)
def test_a_run_goes_on_with_other_numbers_of_replicas(tmp_path, order, flags):
    code, _, err = finish(command(*FLAGS, f"--model_dir={tmp_path}/whole"))
    assert code == 0, err
    for (replicas, micro_batches), stop in zip(order, (60, 160, None)):
        split = [f"--config.simulated_replicas={replicas}", f"--config.accumulation_steps={micro_batches}"]
        process = command(*FLAGS, *flags, *split, f"--model_dir={tmp_path}/parts")
        if stop:
            wait_for_step(str(tmp_path / "parts"), stop, process)
            process.send_signal(signal.SIGTERM)
        code, out, err = finish(process)
        assert code == (42 if stop else 0), err
    assert f"changed    since the run began: accumulation_steps: {order[0][1]} -> 2" in out
    whole, parts = (read_rows(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts"))
    losses = [{row["step"]: row["loss"] for row in rows if row["split"] == "train"} for rows in (whole, parts)]
    # A row is the mean since the one before: not of the same updates where a stop came between.
    both = [step for step in sorted(losses[0]) if step in losses[1] and (step == 5 or step - 5 in losses[1])]
    both = [step for step in both if not any(step - 5 < other < step for other in losses[1])]
    assert len(both) > 50
    np.testing.assert_allclose([losses[1][step] for step in both], [losses[0][step] for step in both], rtol=1e-3)
    one, two = final_weights(tmp_path / "whole"), final_weights(tmp_path / "parts")
    assert one.keys() == two.keys()
