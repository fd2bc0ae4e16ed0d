"""The benchmark of few steps by its command, as its README says, on made-up data."""

import gzip
import json
import os
import re

import pytest

from tests.helpers.preloaded import ROOT, tfbigbatch


@pytest.mark.slow  # Two smokes, as the experiments'.
def test_an_optimizer_of_ones_own_gets_its_rows(tmp_path):
    with open(os.path.join(ROOT, "experiments", "few_steps", "README.md"), encoding="utf-8") as page:
        file, source = re.search(r"```python\n# (\S+)\n(.*?)```", page.read(), re.DOTALL).groups()
    (tmp_path / file).write_text(source)
    arguments = [
        "--quick",
        "--tasks=mnist",
        f"--optimizer={tmp_path}/{file}:my_nadam",
        "--only=my_nadam@60000",
        f"--model_dir={tmp_path}/runs",
        f"--results={tmp_path}/results/few_steps",
        f"--results_cache={tmp_path}/ended.jsonl",
    ]
    done = tfbigbatch("study", "few_steps", *arguments)
    assert done.returncode == 0, done.stderr
    [run] = json.loads((tmp_path / "results" / "few_steps_mnist.json").read_text())["runs"]
    fields = {"name": "my_nadam", "weight_decay": 0.0, "exclude_from_weight_decay": "norm_and_bias"}
    assert run["name"] == "my_nadam" and run["config"]["optimizer"] == fields
    assert run["tuned"] == "0.005 of 1 trials, an end of their range" and run["config"]["evaluate_on"] == "test"
    [trial] = json.loads((tmp_path / "results" / "few_steps_mnist_trials.json").read_text())["runs"]
    assert trial["name"] == "my_nadam, 0.005" and trial["config"]["evaluate_on"] == "minival"
    assert (tmp_path / "results" / "few_steps_mnist_trials.png").exists()

    again = tfbigbatch("study", "few_steps", *arguments)
    assert again.returncode == 0 and "[1/1]" not in again.stdout and "| my_nadam |" in again.stdout


@pytest.mark.slow
def test_the_table_over_all_tasks_leaves_out_those_with_runs_of_another_config(tmp_path):
    """As when one task is run with a flag --config.FIELD beside those that were run without it."""
    with gzip.open(os.path.join(ROOT, "results", "few_steps", "runs.jsonl.gz"), "rt", encoding="utf-8") as file:
        muon = [line for line in file if '"name": "muon"' in line]
    of_mnist = [line for line in muon if '"task": "mnist' in line]
    (tmp_path / "mnist.jsonl").write_text("".join(line for line in of_mnist if '"mixed_precision": "float32"' in line))
    (tmp_path / "others.jsonl").write_text("".join(line for line in muon if line not in of_mnist))

    def study(*arguments):
        return tfbigbatch(
            "study", "few_steps", f"--model_dir={tmp_path}/runs", f"--results={tmp_path}/few_steps", *arguments
        )

    def tasks():
        lines = (tmp_path / "few_steps.md").read_text().splitlines()[2:]
        return {line.split("|")[1].split(",")[0].strip() for line in lines}

    others, mnist = (f"--results_cache={tmp_path}/{name}.jsonl" for name in ("others", "mnist"))
    done = study("--tasks=alexnet_bn", "--only=Muon@8192", others)
    assert done.returncode == 0, done.stderr
    assert tasks() == {"tiny-imagenet", "WikiText-2"}
    float32 = "--config.mixed_precision=float32"  # As that of tiny-imagenet, not of WikiText-2.
    done = study("--tasks=mnist", "--only=Muon@60000", float32, mnist)
    assert done.returncode == 0, done.stderr
    assert tasks() == {"MNIST", "tiny-imagenet"} and "few_steps.md, without bert: runs of another" in done.stdout
    refused = study("--tasks=bert", "--only=Muon@2048", float32, others)
    assert refused.returncode == 1 and "another config" in refused.stderr
