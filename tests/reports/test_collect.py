import json

import pytest

from tests.helpers import made_runs
from tfbigbatch.config import new_config
from tfbigbatch.reports import collect
from tfbigbatch.sweeps.sweep import Entry


def config(**fields):
    made = {"task": "digits_lstm", "batch_size": 32, "seed": 0, "log_every": "1 steps", "optimizer": {"name": "lamb"}}
    return {**made, **fields}


def test_runs_are_grouped_apart_from_the_seed_and_named_by_their_folders(tmp_path):
    for seed in (0, 1):
        made_runs.write(tmp_path / "lamb" / f"seed-{seed}", config(seed=seed), 0.9)
        made_runs.write(tmp_path / "lars" / f"seed-{seed}", config(seed=seed, optimizer={"name": "lars"}), 0.8)
    made_runs.write(tmp_path / "far" / "away", config(batch_size=64, log_every="9 steps"), 0.7)
    rows = collect.found_in([str(tmp_path)])
    assert [(row.name, row.batch_size, len(row.runs)) for row in rows] == [
        ("lamb", 32, 2),
        ("lars", 32, 2),
        ("far/away", 64, 1),
    ]
    assert [run.seed for run in rows[0].runs] == [0, 1]


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no run directory"):
        collect.found_in([str(tmp_path)])
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["Bert"]}))
    with pytest.raises(ValueError, match="not of a run directory"):
        collect.found_in([str(tmp_path)])


def test_one_run_twice_and_two_tasks_are_refused(tmp_path):
    made_runs.write(tmp_path / "a", config(), 0.9)
    made_runs.write(tmp_path / "b", config(), 0.9)
    with pytest.raises(ValueError, match="a and .*b hold the same run"):
        collect.found_in([str(tmp_path)])
    assert len(collect.found_in([str(tmp_path / "a"), str(tmp_path / "a")])[0].runs) == 1
    made_runs.write(tmp_path / "b", config(task="mnist_lstm"), 0.9)
    with pytest.raises(ValueError, match="several tasks: digits_lstm, mnist_lstm"):
        collect.only_task(collect.found_in([str(tmp_path)]))


def test_entries_are_read_where_they_lie(tmp_path):
    entry = Entry("LEGW", new_config("digits_lstm"), (3, 4), "legw/batch-32", "at 32")
    made_runs.write(entry.directory(str(tmp_path), 3), entry.config_at(3).to_dict(), 0.9)
    (row,) = collect.of_entries([entry], str(tmp_path))
    assert [run.state for run in row.runs] == ["done", "not started"] and row.config["seed"] == 3
    entry.config.batch_size = 64
    with pytest.raises(ValueError, match="batch_size: 32 -> 64"):
        collect.of_entries([entry], str(tmp_path))


@pytest.mark.parametrize(
    "directories, batch_sizes, names",
    [
        ([["runs/small"], ["runs/legw"]], [32, 512], ["small", "legw"]),
        ([["runs/legw"]], [512], ["legw"]),
        # Seeds, in folders of their own or at the end of a name.
        ([["runs/legw/seed-0", "runs/legw/seed-1"]], [512], ["legw"]),
        ([["r/a_0", "r/a_1"], ["r/b_seed3"]], [32, 32], ["a", "b"]),
        ([["r/a/10", "r/a/11"], ["r/b/10", "r/b/11"]], [32, 32], ["a", "b"]),
        # The batch size has a column: these are one line of a plot.
        ([["r/legw_512"], ["r/legw-b1024"], ["r/legw/batch-4k"]], [512, 1024, 4096], ["legw", "legw", "legw"]),
        ([["r/legw_512"], ["r/lamb_512"]], [512, 512], ["legw_512", "lamb_512"]),
        # Names without anything else stay as they are.
        ([["r/512"], ["r/1024"]], [512, 1024], ["512", "1024"]),
        ([["r/seed-0"], ["r/seed-1"]], [512, 512], ["seed-0", "seed-1"]),
        ([["r/0", "r/1"], ["r/2"]], [32, 32], ["0", "2"]),
        ([["a/x"], ["a"]], [512, 512], ["a/x", "a"]),
    ],
)
def test_rows_are_named_by_their_folders(directories, batch_sizes, names):
    assert collect.row_names(directories, batch_sizes) == names
