"""The commands of tools/ as a user types them; each answers --help."""

import glob
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = sorted(
    os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "tools", "**", "*.py"), recursive=True)
)

TINY = """
from tfbigbatch import experiment


def get_config():
    config = experiment.new("digits_lstm")
    config.model.hidden_units = 4
    config.batch_size = {batch_size}
    config.duration = "12 steps"
    config.evaluate_every = "4 steps"
    config.checkpoint_every = "6 steps"
    return config
"""


def tool(name, *arguments):
    return subprocess.run(
        [sys.executable, name, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=240, env={**os.environ}
    )


@pytest.mark.parametrize("name", TOOLS)
def test_it_answers_help(name):
    outcome = tool(name, "--help")
    assert name.split("/")[-1] in outcome.stdout


def test_compare_trains_shows_and_does_not_repeat(tmp_path):
    for batch_size in (32, 64):
        (tmp_path / f"batch_{batch_size}.py").write_text(TINY.format(batch_size=batch_size))
    arguments = [
        f"--configs={tmp_path}/batch_32.py,{tmp_path}/batch_64.py",
        f"--model_dir={tmp_path}/runs",
        f"--results={tmp_path}/results",
        "--seeds=0,1",
    ]
    first = tool("tools/compare.py", *arguments)
    assert first.returncode == 0, first.stderr
    assert "[4/4] batch_64, seed 1" in first.stdout and "| batch_32 |" in first.stdout
    assert "tensorboard --host=localhost" in first.stdout and f"{tmp_path}/results.png" in first.stdout
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [len(run["values"]) for run in runs] == [2, 2]
    for file in ("results.png", "runs/comparison.png", "runs/comparison.json", "runs/batch_32/seed-1/status.json"):
        assert (tmp_path / file).exists()

    again = tool("tools/compare.py", *arguments)
    assert again.returncode == 0 and again.stdout.count("nothing to do") == 4
    assert json.loads((tmp_path / "results.json").read_text())["runs"] == runs


def test_tune_tries_the_grid_and_ranks_it(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY.format(batch_size=32))
    outcome = tool(
        "tools/tune.py",
        f"--config={tmp_path}/tiny.py",
        f"--model_dir={tmp_path}/tune",
        "--learning_rates=0.01,0.5",
        "--warmup_epochs=0,0.1",
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "4 trials" in outcome.stdout and "rate-0.5-warmup-0.1" in outcome.stdout
    stored = json.loads((tmp_path / "tune" / "tuning.json").read_text())["runs"]
    assert [run["config"]["schedule"]["learning_rate"] for run in stored] == [0.01, 0.01, 0.5, 0.5]


@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("tools/compare.py", [], "model_dir"),
        ("tools/compare.py", ["--model_dir=x", "--seeds=one"], "--seeds=one: expected whole numbers"),
        ("tools/tune.py", ["--model_dir=x"], "config"),
        (
            "tools/tune.py",
            ["--model_dir=x", "--config=experiments/digits/lstm_lamb.py", "--learning_rates=fast"],
            "--learning_rates=fast: expected numbers",
        ),
    ],
)
def test_a_bad_flag_is_one_message(name, arguments, said):
    outcome = tool(name, *arguments)
    assert outcome.returncode == 1 and "error: " in outcome.stderr and "Traceback" not in outcome.stderr
    assert said in outcome.stderr


def test_scale_shows_and_draws_a_recipe_at_other_batch_sizes(tmp_path):
    arguments = ["tools/scale.py", "--config=experiments/mnist/lstm_small_batch.py", "--batch_size=1024,8192"]
    outcome = tool(*arguments, "--rule=legw,linear", f"--plot={tmp_path}/scale.png")
    assert outcome.returncode == 0, outcome.stderr
    assert "carried by legw: x64 batch: rate" in outcome.stdout and "8,192" in outcome.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"scale_legw.png", "scale_linear.png"}
    refused = tool(*arguments, "--rule=lgew")
    assert refused.returncode == 1 and "Did you mean 'legw'" in refused.stderr
