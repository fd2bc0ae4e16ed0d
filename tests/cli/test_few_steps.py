"""The benchmark of few steps by its command, as its README says, on made-up data."""

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
        f"--sweep={tmp_path}/{file}:mnist",
        "--quick",
        "--only=my_nadam@60000",
        f"--model_dir={tmp_path}/runs",
        f"--results={tmp_path}/results/mnist",
        f"--results_cache={tmp_path}/ended.jsonl",
    ]
    done = tfbigbatch("sweep", *arguments)
    assert done.returncode == 0, done.stderr
    [run] = json.loads((tmp_path / "results" / "mnist.json").read_text())["runs"]
    fields = {"name": "my_nadam", "weight_decay": 0.0, "exclude_from_weight_decay": "norm_and_bias"}
    assert run["name"] == "my_nadam" and run["config"]["optimizer"] == fields
    assert run["tuned"] == "0.005 of 1 trials, an end of their range" and run["config"]["evaluate_on"] == "test"
    [trial] = json.loads((tmp_path / "results" / "mnist_trials.json").read_text())["runs"]
    assert trial["name"] == "my_nadam, 0.005" and trial["config"]["evaluate_on"] == "minival"

    again = tfbigbatch("sweep", *arguments)
    assert again.returncode == 0 and "[1/1]" not in again.stdout and "| my_nadam |" in again.stdout
