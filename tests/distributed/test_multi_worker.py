"""Real processes on loopback under MultiWorkerMirroredStrategy."""

import csv
import json

import numpy as np
import pytest

from tests.helpers.runs import assert_close, final_weights
from tests.test_command_line import command, finish
from tests.test_your_own import code_of
from tfbigbatch.cluster.local import free_addresses
from tfbigbatch.run_directory.metrics_log import read_rows

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
    """Runs the trainer in `workers` processes to its end; returns what each printed."""
    addresses = free_addresses(workers)
    processes = [
        command(
            *common,
            *flags,
            TF_CONFIG=json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}),
        )
        for i in range(workers)
    ]
    try:
        outcomes = [finish(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [code for code, _, _ in outcomes] == [0] * workers, outcomes
    return [out for _, out, _ in outcomes]


def alone(*flags):
    """Runs the trainer in one process."""
    code, _, err = finish(command(*flags))
    assert code == 0, err


def metrics_of(directory):
    return json.loads((directory / "status.json").read_text())["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers_end_where_one_does(workers, tmp_path):
    alone(*FLAGS, f"--model_dir={tmp_path}/one")
    # The chief alone profiles: all make as many steps in a call.
    chief, *others = cluster(workers, "--profile_steps=4,6", f"--model_dir={tmp_path}/many")
    assert f"worker 0 of {workers}" in chief and "done       20 steps" in chief
    # Only the chief speaks and writes.
    assert not any(others)
    assert not [path.name for path in (tmp_path / "many").iterdir() if path.name.startswith(".worker")]
    assert_close(tmp_path / "one", tmp_path / "many")
    assert metrics_of(tmp_path / "many") == pytest.approx(metrics_of(tmp_path / "one"), rel=1e-3)


@pytest.mark.slow
def test_a_batch_ramp_in_two_workers_ends_where_one_does(tmp_path):
    ramp = [
        "--config.duration=2 epochs",
        "--config.ramp.name=growth",
        "--config.ramp.growth=(('0.5 epochs',128),('1 epochs',256))",
        "--config.evaluate_every=0.5 epochs",
        "--config.checkpoint_every=0.5 epochs",
    ]
    alone(*FLAGS, *ramp, f"--model_dir={tmp_path}/one")
    chief, _ = cluster(2, *ramp, f"--model_dir={tmp_path}/many")
    assert "256 global = 32 per replica x 4 accumulation x 2 replicas" in chief
    assert_close(tmp_path / "one", tmp_path / "many")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields, said",
    [
        ("local_steps={'every': 6, 'outer': 'nesterov'}", "rounds     of 6 local steps, 2 replicas"),
        ("adasum={'combine': 'gradients'}", "optimizer  lamb"),
    ],
)
def test_what_two_workers_exchange_is_what_two_replicas_do(tmp_path, fields, said):
    flags = ["--config.duration=36 steps", "--config.evaluate_every=12 steps", f"--config.optimizer.{fields}"]
    chief, _ = cluster(2, *flags, f"--model_dir={tmp_path}/two")
    assert said in chief
    alone(*FLAGS, *flags, "--config.simulated_replicas=2", f"--model_dir={tmp_path}/one")
    assert_close(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_two_workers_resume_with_their_streams_states_and_end_where_one_does(tmp_path):
    # A smoke run stops at step 4, within an epoch, and resumes.
    flags = ["--config=experiments/ptb/small.py", "--config.model.layers=1", "--quick"]
    chief, _ = cluster(2, f"--model_dir={tmp_path}/two", common=flags)
    assert "resume     from the checkpoint of step 4" in chief
    alone(*flags, f"--model_dir={tmp_path}/one")
    assert sum("carried_state" in name for name in final_weights(tmp_path / "one")) == 2
    assert_close(tmp_path / "one", tmp_path / "two", rtol=1e-4, atol=1e-6)
    assert metrics_of(tmp_path / "two") == pytest.approx(metrics_of(tmp_path / "one"), rel=1e-5)


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


@pytest.mark.slow
def test_two_workers_measure_and_train_as_unwatched(tmp_path):
    for name, flags in (("plain", []), ("watched", WATCHED)):
        cluster(2, *flags, f"--model_dir={tmp_path}/{name}")
    # The noise's averages are in the checkpoint of a watched run alone.
    assert_close(tmp_path / "plain", tmp_path / "watched", rtol=0.0, atol=0.0)
    seen = {}
    for row in read_rows(tmp_path / "watched" / "metrics.jsonl"):
        for name, value in row.items():
            if "/" in name:
                seen.setdefault(name.split("/")[0], set()).add(row["step"])
                assert np.isfinite(value), (name, row["step"])
    assert seen == {"noise_scale": {5, 10, 15, 20}, "sharpness": {10, 20}, "layers": {5, 10, 15, 20}}


CALLBACKS = """

def get_callbacks(config, model_dir):
    import keras

    stopping = keras.callbacks.EarlyStopping("val_mae", min_delta=100.0, patience=2)
    return [keras.callbacks.CSVLogger(f"{model_dir}/epochs.csv", append=True), stopping]
"""


@pytest.mark.slow
def test_early_stopping_of_a_task_of_ones_own_ends_the_run_of_two_workers(tmp_path):
    (tmp_path / "stopping.py").write_text(code_of("diabetes.py") + CALLBACKS)
    flags = [f"--config={tmp_path}/stopping.py", "--config.duration=24 steps", "--config.evaluate_every=6 steps"]
    chief, _ = cluster(2, "--config.schedule.warmup_epochs=0.0", f"--model_dir={tmp_path}/run", common=flags)
    assert "batch      32 global = 16 per replica x 1 accumulation x 2 replicas" in chief
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert (status["status"], status["step"], status["stopped_by"]) == ("done", 18, "EarlyStopping")
    with open(tmp_path / "run" / "epochs.csv", encoding="utf-8") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1", "2"]
