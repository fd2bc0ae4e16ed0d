"""The command as a user types it, in a process of its own: exit codes, messages, kills."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers import preloaded
from tests.helpers.fake_metadata_server import serving
from tests.helpers.repository import ROOT
from tests.helpers.runs import assert_same_bits
from tfbigbatch.run_directory.metrics_log import read_rows

LEGW = "experiments/digits/lstm_legw.py"
# Small, with dropout, and with intervals that do not divide the length.
QUICK = [
    f"--config={LEGW}",
    "--config.model.hidden_units=8",
    "--config.model.dropout=0.2",
    "--config.batch_size=32",
    "--config.duration=600 steps",
    "--config.evaluate_every=90 steps",
    "--config.checkpoint_every=40 steps",
    "--config.log_every=5 steps",
]


def command(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "tfbigbatch", "train", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process, timeout=240):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def wait_for_step(model_dir, step, process):
    """Returns once metrics.jsonl shows `step` or more."""
    path = os.path.join(model_dir, "metrics.jsonl")
    for _ in range(2400):
        if os.path.exists(path):
            with open(path) as file:
                lines = file.read().splitlines()
            if any(json.loads(line)["step"] >= step for line in lines[-2:] if line.endswith("}")):
                return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"step {step} was not reached")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of an undisturbed run."""
    directory = str(tmp_path_factory.mktemp("whole"))
    code, out, err = finish(command(*QUICK, f"--model_dir={directory}"))
    assert code == 0, err
    assert "done       600 steps" in out
    return directory


@pytest.mark.slow  # Stopped at any step within one process: tests/test_train.py.
def test_killed_at_any_step_and_run_again_it_ends_in_the_same_bits(whole, tmp_path):
    directory = str(tmp_path)
    # So often that some kills come while one is written.
    flags = [*QUICK, f"--model_dir={directory}", "--config.checkpoint_every=5 steps"]
    step = 0
    for _ in range(3):
        process = command(*flags)
        # At least one checkpoint further each time, then anywhere.
        wait_for_step(directory, min(step + 45 + random.randrange(40), 380), process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        with open(os.path.join(directory, "status.json")) as file:
            status = json.load(file)
        assert status["status"] == "running"
        step = status["step"]
    code, out, err = finish(command(*flags))
    assert code == 0, err
    assert "resume     from the checkpoint of step" in out
    assert_same_bits(directory, whole)


def status_of(directory):
    """The content of status.json, or {} before there is one."""
    path = directory / "status.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.slow  # Six processes and their imports.
def test_signals_while_it_starts_compiles_evaluates_and_saves(whole, tmp_path):
    flags = [*QUICK, f"--model_dir={tmp_path}", "--config.evaluate_every=2 steps", "--config.checkpoint_every=3 steps"]
    process = command(*flags)
    # The first line comes before the model is made.
    assert process.stdout.readline().startswith("task ")
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert code == 42 and "stopped on request, with nothing new to save" in out, err
    assert not status_of(tmp_path)
    step = 0
    for reached in (0, 0, 100, 300):
        process = command(*flags)
        # It is running from before its first update is compiled.
        while status_of(tmp_path).get("status") != "running":
            time.sleep(0.01)
        if reached:
            wait_for_step(str(tmp_path), reached + random.randrange(100), process)
        # More time goes into evaluations and saves than into updates.
        time.sleep(random.uniform(0.0, 0.05))
        process.send_signal(signal.SIGTERM)
        code, out, err = finish(process)
        assert code == 42 and "stopped on request after step" in out, (out, err)
        assert status_of(tmp_path)["status"] == "preempted" and status_of(tmp_path)["step"] > step
        step = status_of(tmp_path)["step"]
    code, out, err = finish(command(*flags))
    assert code == 0, err
    assert_same_bits(str(tmp_path), whole)
    evaluated = [row["step"] for row in read_rows(tmp_path / "metrics.jsonl") if row["split"] == "eval"]
    assert evaluated == list(range(2, 602, 2))


@pytest.mark.slow  # Two processes and their imports; tests/training/test_stop.py holds the handlers.
def test_a_notice_and_slurms_warning_save_and_the_same_command_goes_on(whole, tmp_path):
    answers = {"instance/preempted": "FALSE", "instance/maintenance-event": "NONE"}
    with serving(answers) as (address, _):
        flags = [*QUICK, f"--model_dir={tmp_path}", "--preemption_notice=gce"]
        process = command(*flags, GCE_METADATA_HOST=address)
        wait_for_step(str(tmp_path), 45, process)
        answers["instance/preempted"] = "TRUE"
        told = time.monotonic()
        code, out, err = finish(process)
        # The grace period of Google's spot machines.
        assert code == 42 and "the metadata server says preempted: TRUE" in out and time.monotonic() - told < 30, err
    process = command(*QUICK, f"--model_dir={tmp_path}")
    # Until it has the handler: by then it has made steps of its own.
    wait_for_step(str(tmp_path), status_of(tmp_path)["step"] + 10, process)
    process.send_signal(signal.SIGUSR1)
    code, out, err = finish(process)
    assert code == 42 and "stopped on request after step" in out, err
    code, out, err = finish(command(*QUICK, f"--model_dir={tmp_path}"))
    assert code == 0, err
    assert_same_bits(str(tmp_path), whole)


# After TensorFlow's import; what is refused before has tests/cli/test_refusals.py.
@pytest.mark.parametrize(
    "arguments, environment, said",
    [
        (["--model_dir=build/x", "--tpu=nowhere"], {}, "--tpu=nowhere: no TPU answers"),
        (["--model_dir=build/x"], {"TF_CONFIG": "{"}, "TF_CONFIG is not of the expected form"),
    ],
)
def test_bad_input_ends_with_one_message_and_code_1(arguments, environment, said):
    outcome = preloaded.tfbigbatch("train", f"--config={LEGW}", *arguments, **environment)
    assert outcome.returncode == 1
    assert said in outcome.stderr and "Traceback" not in outcome.stderr + outcome.stdout
    assert sum(line.startswith("error: ") for line in outcome.stderr.splitlines()) == 1


# An import of a module that is None raises.
WITHOUT = """
import sys
from tfbigbatch.cli import main
sys.modules.update({"tf_keras": None, "official": None})
main.run_command("train", sys.argv[1:])
"""


@pytest.mark.parametrize("name", ["mnist/lstm_legw", pytest.param("bert/lamb", marks=pytest.mark.slow)])
def test_quick_needs_no_data_no_directory_no_keras_2_and_no_tf_models_official(tmp_path, name):
    (tmp_path / "without.py").write_text(WITHOUT)
    done = preloaded.run(str(tmp_path / "without.py"), f"--config={name}", "--quick")
    assert done.returncode == 0 and "done       8 steps" in done.stdout, done.stderr


@pytest.mark.slow
def test_a_full_disk_is_one_message(small_disk):
    code, out, err = finish(command(*QUICK, f"--model_dir={small_disk}/run", "--config.log_every=1 steps"))
    assert code == 1 and "cannot be written" in err and "Traceback" not in err
