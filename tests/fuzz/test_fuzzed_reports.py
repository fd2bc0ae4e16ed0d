"""What reports, and the commands that resume from their own lines, read: damaged by a seeded fuzzer."""

import json
import os

import pytest

from tests.fuzz.test_fuzzed_texts import emptied
from tests.helpers import made_checks, made_runs, mutations
from tests.helpers.fuzz_judge import few_and_many, judge
from tfbigbatch import experiment
from tfbigbatch.cli import soak
from tfbigbatch.cli.tpu import plan
from tfbigbatch.reports import critical_batch_report, html, loss_report, losses
from tfbigbatch.reports.report import Report
from tfbigbatch.runs.goodput import PARTS, table_lines
from tfbigbatch.runs.run_states import run_states

NOISE = {f"noise_scale/{name}": value for name, value in (("critical_batch_size", 40.0), ("low", 20.0), ("high", 80.0))}
TRAIN = {step: {"loss": 2.0, "learning_rate": 0.1, "trust_ratio/dense/kernel": 0.5, **NOISE} for step in (5, 10, 20)}


@pytest.fixture
def runs(tmp_path):
    """A folder of two runs that measured what a report shows."""
    for number, batch_size in enumerate((32, 64)):
        folder = str(tmp_path / "runs" / f"run-{batch_size}")
        config = {**experiment.new("digits_lstm").to_dict(), "batch_size": batch_size}
        made_runs.write(folder, config, 0.9 + number / 100, train=TRAIN)
        path = os.path.join(folder, "status.json")
        with open(path, encoding="utf-8") as file:
            status = json.load(file)
        goodput = {"fraction": 0.8, "wall": 5.0, **dict.fromkeys(PARTS, 0.5), "starts": 1, "repeated_steps": 0}
        best = {"metric": "accuracy", "value": 0.9, "step": 20}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**status, "goodput": {**goodput, "step": 20, "time": 1.0}, "best": best}, file)
    return tmp_path / "runs"


def damage(choices, runs):
    """Damages a file of a run; returns its path and what it held."""
    path = runs / choices.choice(("run-32", "run-64")) / choices.choice(("config.json", "status.json", "metrics.jsonl"))
    whole = path.read_bytes()
    if path.name == "metrics.jsonl" and choices.random() < 0.7:
        lines = whole.splitlines()
        number = choices.randrange(len(lines))
        lines[number] = mutations.of_json(choices, json.loads(lines[number]))
        path.write_bytes(b"\n".join(lines))
    else:
        path.write_bytes(mutations.of_file(choices, path.name, whole))
    return path, whole


@few_and_many(150, 12_000)
def test_the_table_and_the_states_of_runs(tmp_path, runs, seeds):
    def case(choices):
        path, whole = damage(choices, runs)
        try:
            report = Report.of_folders([str(runs)])
            assert report.ranked().table().markdown()
            report.write_results(str(tmp_path / "results.json"))
            run_states(report.rows, report.scalars, report.metric)
            table_lines([(row.name, run.status) for row in report.rows for run in row.runs])
        finally:
            path.write_bytes(whole)

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(2, 62)
def test_the_page_and_its_plots(tmp_path, runs, seeds):
    before = sorted(os.listdir(tmp_path))

    def case(choices):
        path, whole = damage(choices, runs)
        out = emptied(tmp_path / "out")
        try:
            for written in html.write_page(Report.of_folders([str(runs)]), str(out / "report")):
                assert os.path.dirname(written) == str(out) and os.path.getsize(written)
        finally:
            path.write_bytes(whole)
        assert sorted(os.listdir(tmp_path)) == sorted({*before, "out"})

    judge(seeds, case)


# A line of each file that a command resumes from, what reads the file, and what shows it.
SOAKED = {
    "workers": 2,
    "steps": 100,
    "failures": "kill",
    "checkpoint_every": "continuous",
    "injected": {"kill": 3},
    "exit_codes": {"0": 2, "-9": 1},
    "goodput": {"fraction": 0.9, "wall": 10.0, "repeated_steps": 5, "restart": 1.0},
    "undisturbed_seconds": 9.0,
    "same_bits": True,
    "different": [],
}
AT = {"step": 20, "examples": 640, "epoch": 1.0}
BRANCH = {**AT, "learning_rate": 0.1, "trained": 640, "batch_size": 64, "seed": 0, "loss": 0.3}
LOSS = {"row": "LEGW", "batch_size": 64, "seed": 0, "steps": 20, "bias": None, "twin": None, "line": 4.6}
LOSS |= {"curve": {"steps": [10, 20], "losses": [2.0, 1.0]}, "train": 0.9, "held_out": 1.1}
LOSS |= {"checkpoints": [{"step": 20, "train": 0.9, "held_out": 1.1, "eigenvalue_1": 3.5}]}


def shown_losses(path):
    return loss_report.checkpoints_table(losses.read(path)).markdown()


def shown_soak(path):
    rows = soak._rows(path.removesuffix(".jsonl"))
    return soak.table(rows), soak._row_of(rows, 2, 100, "kill", "continuous")


LINES = {
    "soak.jsonl": (SOAKED, shown_soak),
    "branches.jsonl": (BRANCH, critical_batch_report.read),
    "losses.jsonl": (LOSS, shown_losses),
}


@few_and_many(160, 10_000)
def test_lines_that_a_command_resumes_from(tmp_path, seeds):
    def case(choices):
        name = choices.choice(sorted(LINES))
        line, show = LINES[name]
        whole = json.dumps(line).encode() + b"\n"
        content = [whole, mutations.of_json(choices, line) + b"\n", whole]
        if choices.random() < 0.3:
            content = [mutations.of_bytes(choices, whole * 3)]
        (tmp_path / name).write_bytes(b"".join(content))
        show(str(tmp_path / name))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0


@few_and_many(80, 4000)
def test_checks_of_steps_for_tpus(tmp_path, seeds):
    whole = made_checks.fitting()
    path = emptied(tmp_path / "checks") / "check.json"

    def case(choices):
        path.write_bytes(mutations.of_json(choices, whole))
        plan.read_check(str(path))

    outcomes = judge(seeds, case)
    assert min(outcomes["fine"], outcomes["refused"]) > 0
