"""Real workers on loopback that are killed, frozen or told to stop, and what becomes of the run."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.runs import assert_close, assert_same_bits, final_weights
from tests.test_command_line import ROOT, command, finish, wait_for_step

FLAGS = [
    "--config=experiments/digits/lstm_lamb.py",
    "--config.model.hidden_units=8",
    "--config.batch_size=64",
    "--config.evaluation_batch_size=50",
    "--config.schedule.warmup_epochs=0.0",
    "--config.duration=300 steps",
    "--config.evaluate_every=60 steps",
    "--config.checkpoint_every=20 steps",
    "--config.log_every=5 steps",
]
# Of one launcher, its workers, in the order of their indices.
WORKERS = "pgrep -P {}"


def launch(model_dir, workers, *flags, restarts=0, common=FLAGS):
    return subprocess.Popen(
        [sys.executable, "-m", "tfbigbatch", "launch-local", f"--workers={workers}", f"--restarts={restarts}", "--"]
        + [sys.executable, "-m", "tfbigbatch", "train", *common, f"--model_dir={model_dir}", *flags],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def workers_of(launcher):
    """The processes of the launcher's workers, by their indices."""
    found = subprocess.run(WORKERS.format(launcher.pid).split(), capture_output=True, text=True).stdout.split()
    indexed = {}
    for pid in found:
        with open(f"/proc/{pid}/environ", "rb") as file:
            indexed[int(re.search(rb'"index": (\d+)', file.read()).group(1))] = int(pid)
    return indexed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Returns a function of the number of workers that gives the directory of a run that nothing happened to."""
    made = {}

    def run(workers):
        if workers not in made:
            made[workers] = tmp_path_factory.mktemp("undisturbed") / str(workers)
            launcher = launch(made[workers], workers)
            code, out, _ = finish(launcher)
            assert code == 0, out
        return made[workers]

    return run


@pytest.mark.slow
def test_one_process_goes_on_with_what_two_saved_of_sharded_updates(tmp_path):
    flags = ["--config.duration=100 steps", "--config.schedule.learning_rate=0.01"]
    code, _, err = finish(command(*FLAGS, *flags, f"--model_dir={tmp_path}/whole"))
    assert code == 0, err
    flags.append("--config.optimizer.shard_updates=True")
    launcher = launch(tmp_path / "parts", 2, *flags)
    wait_for_step(tmp_path / "parts", 40, launcher)
    launcher.send_signal(signal.SIGTERM)
    code, out, _ = finish(launcher)
    assert code == 42, out
    code, _, err = finish(command(*FLAGS, *flags, f"--model_dir={tmp_path}/parts"))
    assert code == 0, err
    assert_close(tmp_path / "whole", tmp_path / "parts", rtol=1e-2, atol=1e-4)
    assert final_weights(tmp_path / "whole").keys() == final_weights(tmp_path / "parts").keys()


@pytest.mark.slow  # Six to ten seconds of two cores for every start of a worker.
@pytest.mark.parametrize(
    "workers, lost, by",
    [(2, 0, signal.SIGKILL), (2, 1, signal.SIGKILL), (4, 3, signal.SIGKILL), (2, 1, signal.SIGSTOP)],
)
def test_a_killed_or_frozen_worker_restarts_all_to_the_same_bits(tmp_path, undisturbed, workers, lost, by):
    launcher = launch(tmp_path / "run", workers, restarts=2)
    wait_for_step(tmp_path / "run", random.randint(25, 200), launcher)
    os.kill(workers_of(launcher)[lost], by)
    lost_at = time.monotonic()
    lines = []
    for line in launcher.stdout:
        lines.append(line)
        if "restarting all" in line:
            assert by == signal.SIGSTOP or time.monotonic() - lost_at < 30
    assert launcher.wait(timeout=300) == 0, "".join(lines)
    assert sum("restarting all" in line for line in lines) == 1
    assert_same_bits(tmp_path / "run", undisturbed(workers))


# Fields of a run of the user's own model; checkpoints are in the middle of a round.
VARIANTS = {
    "every half second": (2, ["checkpoint_every=0.5 seconds"]),
    "four workers": (4, []),
    "adasum": (2, ["optimizer.adasum={'combine': 'updates'}"]),
    "local steps": (2, ["optimizer.local_steps={'every': 8, 'outer': 'nesterov'}"]),
    "sharded updates": (2, ["optimizer.shard_updates=True"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_users_model_with_batch_normalisation_that_is_killed_ends_in_the_same_bits(tmp_path, variant):
    workers, fields = VARIANTS[variant]
    flags = ["--config=tests/helpers/normalised.py", *(f"--config.{field}" for field in fields)]
    code, out, _ = finish(launch(tmp_path / "whole", workers, *flags, common=[]))
    assert code == 0, out
    launcher = launch(tmp_path / "run", workers, *flags, common=[], restarts=2)
    wait_for_step(tmp_path / "run", random.randint(120, 400), launcher)
    os.kill(workers_of(launcher)[1], signal.SIGKILL)
    code, out, _ = finish(launcher)
    assert code == 0 and "resume     from the checkpoint of step" in out, out
    assert_same_bits(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("before_the_first_step", [False, True])
def test_workers_that_are_told_to_stop_stop_together(tmp_path, undisturbed, before_the_first_step):
    launcher, lines = launch(tmp_path / "run", 2), []
    if before_the_first_step:
        for line in launcher.stdout:
            lines.append(line)
            if "task       " in line:
                break
    else:
        wait_for_step(tmp_path / "run", 30, launcher)
    # One host's notice is enough.
    os.kill(workers_of(launcher)[1], signal.SIGTERM)
    code, out, _ = finish(launcher)
    said = "before a step was made" if before_the_first_step else "stopped on request after step"
    assert code == 42 and said in out, "".join([*lines, out])
    saved = tmp_path / "run" / "checkpoints"
    assert (saved.exists() and any(saved.iterdir())) != before_the_first_step
    code, out, _ = finish(launch(tmp_path / "run", 2))
    assert code == 0, out
    assert_same_bits(tmp_path / "run", undisturbed(2))


@pytest.mark.slow
def test_a_worker_whose_others_never_come_gives_up(tmp_path):
    cluster = '{"cluster": {"worker": ["127.0.0.1:%d", "127.0.0.1:%d"]}, "task": {"type": "worker", "index": 0}}'
    began = time.monotonic()
    process = command(*FLAGS, f"--model_dir={tmp_path}", "--stall_timeout=20", TF_CONFIG=cluster % (23571, 23572))
    code, _, err = finish(process)
    assert code == 75 and "worker 0 waits for 127.0.0.1:23572" in err and "no progress for 20 seconds" in err, err
    assert time.monotonic() - began < 120
