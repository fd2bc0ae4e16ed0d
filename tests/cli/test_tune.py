"""The command `tune`."""

import json
import os
import re
import shlex

import numpy as np
import pytest

from tests.helpers.preloaded import tfbigbatch
from tfbigbatch.run_directory import checkpoint_files, weights

SEARCH = ["tune", "--config=digits/lstm_small_batch", "--config.batch_size=512", "--executor=here"]


def weights_of(directory):
    return weights.read(checkpoint_files.paths(os.path.join(directory, "checkpoints"))[0])


@pytest.mark.slow
def test_it_writes_what_it_found_and_its_command_trains_the_same(tmp_path):
    folder = tmp_path / "tune"
    arguments = [*SEARCH, "--config.duration=6 epochs", f"--model_dir={folder}", "--budget=1.5"]
    printed = tfbigbatch(*arguments).stdout
    assert "choice     on minival" in printed and "test       cross_entropy" in printed
    content = json.loads((folder / "tune.json").read_text())
    assert (folder / "tune.png").exists() and (folder / "tune.txt").read_text() in f"{printed}\n"
    [command] = re.findall(r"^  tfbigbatch train (.*) --model_dir=runs/tuned$", printed, re.MULTILINE)
    tfbigbatch("train", *shlex.split(command), f"--model_dir={tmp_path / 'again'}")
    one = weights_of(folder / f"candidate-{content['winner']:02}")
    for name, value in weights_of(tmp_path / "again").items():
        np.testing.assert_array_equal(value, one[name], err_msg=name)


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--budget=0.9", "budget=0.9 is out of range; expected 1 or more runs"),
        ("--optimizers=tuned,moun", "optimizer 'moun' is unknown. Did you mean 'muon'"),
        ("--search=rates", "search has 'rates'. Did you mean 'rate'"),
        ("--rungs=0.3,0.1", "expected rising shares of a run"),
        ("--config.batch_size=2000", "batch_size=2,000 is larger than the"),
        ("--executor=everywhere", "executor='everywhere'; expected a concurrent.futures.Executor"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_training(flag, message, tmp_path):
    result = tfbigbatch(*SEARCH, f"--model_dir={tmp_path / 'tune'}", flag)
    assert result.returncode == 1 and message in result.stderr
    assert not (tmp_path / "tune" / "candidate-00").exists()


def test_without_a_folder_it_says_what_is_missing():
    result = tfbigbatch(*SEARCH)
    assert result.returncode == 1 and "--model_dir is missing: give a folder for the candidates" in result.stderr
