"""`tfbigbatch train` on a run directory: without repeating what the run was started with."""

import json

import pytest

from tests.helpers import preloaded
from tfbigbatch.config import load_config
from tfbigbatch.run_directory.directory import RunDirectory

LEGW = "--config=digits/lstm_legw"


@pytest.fixture
def directory(tmp_path):
    """Of a run that was killed at step 7 of 24, before its first checkpoint."""
    config = load_config("digits/lstm_legw")
    config.batch_size, config.duration = 48, "24 steps"
    files = RunDirectory(str(tmp_path / "run"))
    files.open(config.to_dict(), ["CPU:0"], {"data_dir": str(tmp_path / "gone"), "init_from": None})
    files.write_status("running", step=7, total_steps=24, seconds=1.0)
    return str(tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config.batch_size=64"], "batch_size: 48 -> 64"),
        (["--mode=eval", LEGW, "--config.seed=3"], "seed: 0 -> 3"),
        (["--mode=eval"], "holds no checkpoint"),
        (["--extend", LEGW, "--config.duration=48 steps"], "not finished; it is at step 7"),
        (["--extend"], "has the duration '24 steps' already"),
        (["--init_from=elsewhere"], "--init_from=elsewhere: the run in"),
        (["--config.learning_rate=1"], "there is no field 'learning_rate'"),
        (["--config=mnist/lstm_legw", "--mode=eval"], "of task digits_lstm, and --config is of task mnist_lstm"),
        # The folder of the data that the run remembers.
        ([], "gone: no such folder"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(directory, arguments, said):
    before = json.loads(open(f"{directory}/config.json").read())
    outcome = preloaded.tfbigbatch("train", f"--model_dir={directory}", *arguments)
    assert outcome.returncode == 1 and said in outcome.stderr, (outcome.stdout, outcome.stderr)
    assert json.loads(open(f"{directory}/config.json").read()) == before


def test_the_config_of_the_run_counts_in_an_evaluation(directory):
    outcome = preloaded.tfbigbatch("train", f"--model_dir={directory}", LEGW, "--mode=eval")
    assert "config     that of the run; the experiment file has batch_size: 48 -> 512; duration: " in outcome.stdout


def test_a_directory_without_a_run_is_named(tmp_path):
    outcome = preloaded.tfbigbatch("train", f"--model_dir={tmp_path}/none")
    assert outcome.returncode == 1 and "none holds no run: it has no config.json" in outcome.stderr
