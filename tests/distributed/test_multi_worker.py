"""Real processes on loopback under MultiWorkerMirroredStrategy."""

import json

import numpy as np
import pytest

from tests.conftest import final_weights
from tests.test_command_line import command, finish
from tfbigbatch.cluster.local import free_addresses

FLAGS = [
    "--config=experiments/digits/lstm_lamb.py",
    "--config.model.hidden_units=8",
    "--config.batch_size=64",
    "--config.duration=20 steps",
    "--config.evaluate_every=10 steps",
    "--config.checkpoint_every=10 steps",
    "--config.schedule.warmup_epochs=0.0",
    "--config.evaluation_batch_size=50",
]


def cluster(workers, *flags, common=FLAGS):
    """Runs the trainer in `workers` processes; returns (code, stdout, stderr) of each."""
    addresses = free_addresses(workers)
    processes = [
        command(
            *common,
            *flags,
            TF_CONFIG=json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}),
        )
        for i in range(workers)
    ]
    return [finish(process) for process in processes]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers_end_where_one_does(workers, tmp_path):
    code, _, err = finish(command(*FLAGS, f"--model_dir={tmp_path}/one"))
    assert code == 0, err
    outcomes = cluster(workers, f"--model_dir={tmp_path}/many")
    assert [code for code, _, _ in outcomes] == [0] * workers, outcomes
    assert f"worker 0 of {workers}" in outcomes[0][1] and "done       20 steps" in outcomes[0][1]
    # Only the chief speaks and writes.
    assert all(out == "" for _, out, _ in outcomes[1:])
    assert not [path.name for path in (tmp_path / "many").iterdir() if path.name.startswith(".worker")]
    one, many = final_weights(tmp_path / "one"), final_weights(tmp_path / "many")
    for name, value in one.items():
        np.testing.assert_allclose(many[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    metrics = [json.loads((tmp_path / run / "status.json").read_text())["metrics"] for run in ("one", "many")]
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-3)


@pytest.mark.slow
def test_a_batch_ramp_in_two_workers_ends_where_one_does(tmp_path):
    ramp = [
        "--config.duration=2 epochs",
        "--config.ramp.name=growth",
        "--config.ramp.growth=(('0.5 epochs',128),('1 epochs',256))",
        "--config.evaluate_every=0.5 epochs",
        "--config.checkpoint_every=0.5 epochs",
    ]
    code, _, err = finish(command(*FLAGS, *ramp, f"--model_dir={tmp_path}/one"))
    assert code == 0, err
    outcomes = cluster(2, *ramp, f"--model_dir={tmp_path}/many")
    assert [code for code, _, _ in outcomes] == [0, 0], outcomes
    assert "256 global = 32 per replica x 4 accumulation x 2 replicas" in outcomes[0][1]
    one, many = final_weights(tmp_path / "one"), final_weights(tmp_path / "many")
    for name, value in one.items():
        np.testing.assert_allclose(many[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_local_steps_of_two_workers_resume_together_and_end_where_two_replicas_do(tmp_path):
    rounds = [
        "--config.batch_size=64",
        "--config.duration=36 steps",
        "--config.evaluate_every=12 steps",
        "--config.checkpoint_every=9 steps",
        "--config.optimizer.local_steps={'every': 6, 'outer': 'nesterov', 'delay': 1}",
    ]
    for turn in range(2):
        outcomes = cluster(2, *rounds, f"--model_dir={tmp_path}/many")
        assert [code for code, _, _ in outcomes] == [0, 0], outcomes
        if not turn:
            whole = final_weights(tmp_path / "many")
            # As if it had been killed after the checkpoint before the last, in the middle of a round.
            for path in (tmp_path / "many" / "checkpoints").glob("step-36*"):
                path.unlink()
            (tmp_path / "many" / "status.json").unlink()
    assert "rounds     of 6 local steps, 2 replicas, combined by nesterov, a round late" in outcomes[0][1]
    assert "resume     from the checkpoint of step 27" in outcomes[0][1]
    resumed = final_weights(tmp_path / "many")
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)
    one_process = ["--config.simulated_replicas=2", f"--model_dir={tmp_path}/one"]
    code, _, err = finish(command(*FLAGS, *rounds, *one_process))
    assert code == 0, err
    one = final_weights(tmp_path / "one")
    for name, value in one.items():
        np.testing.assert_allclose(resumed[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
