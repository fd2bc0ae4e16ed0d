"""Run directories written by hand, kept in a file and made again."""

import gzip
import json
import os

import pytest

from tests.helpers import made_runs
from tests.helpers.preloaded import ROOT
from tfbigbatch import sweeps
from tfbigbatch.config import new_config
from tfbigbatch.run_directory.directory import RunDirectory, read_json
from tfbigbatch.sweeps.results_cache import ResultsCache

RESULTS = os.path.join(ROOT, "results")
CONFIG = new_config("digits_lstm").to_dict()


def made(tmp_path, name, config=CONFIG, **fields):
    made_runs.write(str(tmp_path / name), config, **{"value": 0.9, **fields})
    return str(tmp_path / name)


def test_a_run_made_again_reads_as_the_one_that_was_kept(tmp_path):
    before = made(tmp_path, "before")
    with open(f"{before}/metrics.jsonl", "a") as file:
        file.write('{"step": 1, "split": "train", "loss": 1.0}\n')
    ResultsCache(str(tmp_path / "kept.jsonl")).keep([before])
    after = str(tmp_path / "some" / "after")
    assert ResultsCache(str(tmp_path / "kept.jsonl")).restore(after, CONFIG)
    for name in ("config.json", "status.json"):
        assert read_json(f"{after}/{name}") == read_json(f"{before}/{name}")
    assert [line.count("eval") for line in open(f"{after}/metrics.jsonl")] == [1, 1]


def test_no_path_is_kept(tmp_path):
    directory = made(tmp_path, "run", {**CONFIG, "experiment": "/home/me/mine.py"})
    ResultsCache(str(tmp_path / "kept.jsonl")).keep([directory])
    [line] = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert json.loads(line)["started"]["config"]["experiment"] == ""
    assert ResultsCache(str(tmp_path / "kept.jsonl")).restore(str(tmp_path / "again"), CONFIG)


def test_only_runs_that_have_ended_are_kept(tmp_path):
    directories = [
        made(tmp_path, state, {**CONFIG, "seed": seed}, status=state)
        for seed, state in enumerate(("done", "diverged", "running", "preempted"))
    ]
    kept = ResultsCache(str(tmp_path / "kept.jsonl"))
    kept.keep([*directories, str(tmp_path / "not started")])
    found = [kept.restore(str(tmp_path / f"again-{seed}"), {**CONFIG, "seed": seed}) for seed in range(5)]
    assert found == [True, True, False, False, False]
    # A directory that is there stays as it is.
    there = made(tmp_path, "there", status="running", value=0.5)
    assert not kept.restore(there, {**CONFIG, "seed": 0})
    assert read_json(f"{there}/status.json")["status"] == "running"


def test_a_run_of_before_a_field_came_is_still_the_same_run(tmp_path):
    older = {name: value for name, value in CONFIG.items() if name != "keep_best"}
    kept = ResultsCache(str(tmp_path / "kept.jsonl"))
    kept.keep([made(tmp_path, "older", older)])
    assert kept.restore(str(tmp_path / "again"), CONFIG)
    assert RunDirectory(str(tmp_path / "again")).check(CONFIG) == []
    assert not kept.restore(str(tmp_path / "another"), {**CONFIG, "batch_size": 7})


@pytest.mark.parametrize("name", ["bert", "adasum/bert_tiny", "multi30k", "ptb"])
def test_the_committed_runs_are_those_of_the_sweeps_beside_them(tmp_path, name):
    """A default that changes what a run does would make each of them another run."""
    kept = ResultsCache(os.path.join(RESULTS, os.path.dirname(name), "runs.jsonl.gz"))
    for entry in sweeps.load(os.path.join(RESULTS, f"{name}_sweep.py")).entries:
        for seed in entry.seeds:
            directory = entry.directory(str(tmp_path), seed)
            assert kept.restore(directory, entry.config_at(seed).to_dict()), f"{entry.name}, seed {seed}"


@pytest.mark.parametrize("task", ["ptb", "bert", "multi30k"])
def test_the_committed_runs_of_the_plateau_are_rows_of_its_sweep(tmp_path, task):
    kept = ResultsCache(os.path.join(RESULTS, "why", "runs.jsonl.gz"))
    rows = sweeps.load(os.path.join(RESULTS, "why", f"plateau_sweep.py:{task}")).entries
    found = [kept.restore(row.directory(str(tmp_path), 0), row.config_at(0).to_dict()) for row in rows]
    assert sum(found) == {"ptb": 8, "bert": 9, "multi30k": 6}[task]


@pytest.mark.parametrize("change", [{"started": 1}, *({"evaluations": each} for each in (None, 3.0, "rows", [1]))])
def test_a_file_of_something_else_is_refused(tmp_path, change):
    ResultsCache(str(tmp_path / "kept.jsonl")).keep([made(tmp_path, "run")])
    line = json.loads((tmp_path / "kept.jsonl").read_text())
    (tmp_path / "kept.jsonl").write_text(json.dumps({**line, **change}))
    with pytest.raises(ValueError, match="kept.jsonl cannot be read as a results cache .*Name another"):
        ResultsCache(str(tmp_path / "kept.jsonl"))


def test_a_file_that_ends_in_gz_is_compressed_and_has_the_same_bytes_for_the_same_runs(tmp_path):
    directory = made(tmp_path, "run")
    for name in ("kept.jsonl", "one.jsonl.gz", "other.jsonl.gz"):
        ResultsCache(str(tmp_path / name)).keep([directory])
    written = (tmp_path / "one.jsonl.gz").read_bytes()
    assert gzip.decompress(written) == (tmp_path / "kept.jsonl").read_bytes()
    assert written == (tmp_path / "other.jsonl.gz").read_bytes() and written[4:8] == bytes(4)
    again = ResultsCache(str(tmp_path / "one.jsonl.gz"))
    assert again.restore(str(tmp_path / "again"), CONFIG)
    again.keep([directory])
    assert (tmp_path / "one.jsonl.gz").read_bytes() == written


def test_a_damaged_or_endless_gz_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "kept.jsonl.gz"
    ResultsCache(str(path)).keep([made(tmp_path, "run")])
    whole = path.read_bytes()
    for content in (b"text", whole[:-9], whole[:20] + b"x" * 9 + whole[29:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read as a results cache"):
            ResultsCache(str(path))
    monkeypatch.setattr("tfbigbatch.sweeps.results_cache.MOST_BYTES", 10_000)
    path.write_bytes(gzip.compress(b" " * 10**6))
    with pytest.raises(ValueError, match="more than 10,000 bytes uncompressed"):
        ResultsCache(str(path))
