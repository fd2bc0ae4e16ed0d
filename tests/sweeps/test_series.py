"""Series of a made-up run in place of the trainer."""

import concurrent.futures
import os
import signal

import pytest

from tests.helpers import made_runs
from tests.helpers.fake_run import fake_run
from tfbigbatch import errors
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.sweeps.series import run_series
from tfbigbatch.sweeps.sweep import Entry
from tfbigbatch.utils.processes import cores


@pytest.fixture
def entries():
    return [Entry(name, new_config("digits_lstm"), (0, 1), f"{name}/batch-32") for name in ("a", "b")]


def starts(tmp_path):
    return sorted(str(path.relative_to(tmp_path))[:-6] for path in tmp_path.rglob("*.count") for _ in path.read_text())


EVERY = ["a/batch-32/seed-0", "a/batch-32/seed-1", "b/batch-32/seed-0", "b/batch-32/seed-1"]


def test_in_this_process_each_runs_once(tmp_path, entries, capsys):
    calls = []
    for _ in range(2):
        run_series(entries, model_dir=str(tmp_path), run=fake_run, on_run_end=lambda: calls.append(1))
    assert starts(tmp_path) == EVERY and len(calls) == 4
    said = capsys.readouterr().out
    assert "[4/4] b at 32, seed 1: test accuracy 90.00%, 3 s\n" in said
    assert said.count("nothing to do") == 4


def test_a_diverged_run_is_an_end(tmp_path, entries, capsys):
    for _ in range(2):
        run_series(entries, model_dir=str(tmp_path), run=fake_run, data_dir='{"1": "diverge"}')
    assert starts(tmp_path) == EVERY
    assert "seed 1: diverged, finished before" in capsys.readouterr().out


def test_a_directory_of_another_config_is_refused_before_anything_runs(tmp_path, entries):
    made_runs.write(entries[1].directory(str(tmp_path), 1), {"batch_size": 7}, 0.9)
    with pytest.raises(ValueError, match="batch_size: 7 -> 32"):
        run_series(entries, model_dir=str(tmp_path), run=fake_run)
    assert starts(tmp_path) == []


@pytest.mark.slow
def test_a_process_executes_the_files_that_register_optimizers(tmp_path, entries):
    executed = tmp_path / "executed"
    file = tmp_path / "sweep.py"
    file.write_text(f"with open({str(executed)!r}, 'a') as file:\n    file.write('x')\n")
    run_series(entries[:1], model_dir=str(tmp_path), run=fake_run, files=[str(file)], processes=2)
    assert executed.read_text() == "xx" and starts(tmp_path) == EVERY[:2]


def test_a_run_that_fails_is_named_with_its_log_and_the_others_go_on(tmp_path, entries, capsys, monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    made_runs.write(entries[0].directory(str(tmp_path), 0), entries[0].config_at(0).to_dict(), 0.8)
    some = [entries[0], Entry("b", entries[1].config, (0,), "b/batch-32")]
    with pytest.raises(
        errors.InputError, match="1 of 2 runs failed.*\n  a at 32, seed 1: FAILED .*; see .*seed-1.log"
    ) as caught:
        run_series(some, model_dir=str(tmp_path), run=fake_run, data_dir='{"1": "crash"}', processes=2)
    assert "b at 32" not in str(caught.value)
    said = capsys.readouterr().out
    assert "a at 32, seed 1: FAILED with exit code 1" in said and "RuntimeError: the disk is on fire" in said
    assert "b at 32, seed 0: test accuracy 90.00%" in said and "a at 32, seed 0: test accuracy 80.00%, finished" in said
    assert starts(tmp_path) == ["a/batch-32/seed-1", "b/batch-32/seed-0"]
    assert (tmp_path / "b/batch-32/seed-0.log").read_text() == f"threads {max(1, cores() // 2)}\n"


def test_runs_on_other_numbers_of_replicas_have_processes_of_their_own(tmp_path, entries):
    entries[1].config.simulated_replicas = 2
    run_series(entries, model_dir=str(tmp_path), run=fake_run)
    assert starts(tmp_path) == EVERY
    assert len(list(tmp_path.rglob("seed-*.log"))) == 4


def test_a_signal_stops_the_children_and_the_same_command_goes_on(tmp_path, entries, capsys):
    arguments = {"model_dir": str(tmp_path), "run": fake_run, "data_dir": '{"0": "wait", "1": "wait"}', "processes": 2}

    def interrupt(signum, frame):
        if len(starts(tmp_path)) < 2 or len(list(tmp_path.rglob("metrics.jsonl"))) < 2:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(errors.Preempted, match="same command resumes"):
            run_series(entries, **arguments)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert starts(tmp_path) == EVERY[:2]
    assert capsys.readouterr().out.count("stopped; it resumes from its checkpoint") == 2
    assert RunDirectory(str(tmp_path / EVERY[0])).status()["status"] == "preempted"
    for entry in entries[:1]:
        for seed in entry.seeds:
            with open(f"{entry.directory(str(tmp_path), seed)}.go", "w"):
                pass
    run_series(entries[:1], **arguments)
    assert RunDirectory(str(tmp_path / EVERY[0])).status()["status"] == "done"


def test_any_executor_runs_the_calls(tmp_path, entries, capsys):
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        run_series(entries[:1], model_dir=str(tmp_path), run=fake_run, executor=executor)
        with pytest.raises(errors.InputError, match="1 of 2 runs failed.*\n  b at 32, seed 0: the disk is on fire"):
            run_series(entries[1:], model_dir=str(tmp_path), run=fake_run, data_dir='{"0": "crash"}', executor=executor)
    assert starts(tmp_path) == EVERY and "b at 32, seed 1: test accuracy 90.00%" in capsys.readouterr().out
