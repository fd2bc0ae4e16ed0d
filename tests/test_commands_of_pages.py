"""The shell commands of the pages: what they name is there, and those that two cores can are executed.

Each command of a fenced block has a row in EXECUTED or in NOT_EXECUTED, in the default run too; `make test-slow` runs
the first. `pytest -m slow tests/test_commands_of_pages.py -k PAGE` runs those of one page.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.helpers import page_commands, preloaded
from tests.helpers.page_commands import PAGES, ROOT

_NOT_LINKED = ("build", "runs", "dist")
# Commands that no page may have, and what is said of them.
WRONG = {
    "tfbigbatch trian --config=digits/lstm_lamb": "'trian' is not a command",
    "tfbigbatch train --configs=digits/lstm_lamb": "Unknown command line flag 'configs'",
    "tfbigbatch train --config=digits/lstm_lamp": "no such file",
    "tfbigbatch train --config=bert/lamb:33k": "there is no variant '33k'",
    "tfbigbatch train --config=digits/lstm_lamb --config.batchsize=3": "no field 'batchsize'",
    "tfbigbatch train --config=digits/lstm_lamb --mode=test": "--mode=test",
    "tfbigbatch train --config=... --modle_dir=...": "no flag --modle_dir",
    "tfbigbatch train digits/lstm_lamb": "is not a flag",
    "tfbigbatch study --study=results/mnist_study.py --model_dir=runs --only=LAMP": "LAMP",
    "tfbigbatch study --config=digits/lstm_lamb --model_dir=runs --sweep.batchsize=1,2": "no field 'batchsize'",
    "tfbigbatch launch-local --workers=2 -- tfbigbatch train --seed=x": "--seed=x",
    "python tools/study.py --model_dirs=runs": "Unknown command line flag 'model_dirs'",
    "python tools/studies.py": "no such file",
    "python -m tfbigbatch.trainer": "no module",
    "python benchmarks/gpu.py run --dirs=runs": "--dir",
    "python examples/tfds_digits.py --smoke": "takes no arguments",
    "make tests": "no target tests",
    "make test PYTHONS=python3": "no variable PYTHONS",
    "pip install '.[model]'": "no extra model",
    "python -m pytest tests/fuzzy": "no such file",
}

# By a part of the command, why it is not executed.
NOT_EXECUTED = {
    r"--strategy=tpu|tpu[-_]check|tools\.pages\.tpu|tensorflow-tpu|libtpu": "needs a TPU, or its compiler",
    r"--strategy=multi_worker": "needs several machines",
    r"benchmarks/gpu\.py|few_steps_jax --data_dir": "needs a GPU",
    r"^(\S*/)?pip |make setup|-m venv": "needs the internet, and changes the environment",
    r"make (docs|test .*=)|peer_suites|KERAS_BACKEND=\S+ python examples": "needs other packages",
    r"make (test|lint)|-m pytest": "runs tests",
    r"make (results|tune|fuzz)|soak\.py": "takes hours",
    r"^tensorboard|http\.server": "serves until it is ended",
    r"your_training|=CHECKOUT|=RUN_DIR|FOLDER_ON_|compliance_checker|--config=\.\.\.": "needs files of the reader's",
    r"benchmarks/(optimizers|jax_updates|saving|against|frameworks( --networks|$))": "takes minutes",
    r"benchmarks/keras_own": "needs data, and takes an hour",
    r"study.* --data_dir|study_plateau|explain .*runs/": "needs data, and hours",
    r"prepare[-_]|tools/(score|translate|report)\.py.* --": "needs data that is not in the repository",
    r"benchmarks/.*(--data_dir|--source|_dir=|--lengths|ptb/|bert/)|--trust_ratios|runs/multi30k|--quick": "needs data",
}
# Of the others, by a part of the command, the flags that make it shorter or do without data: they come last and win.
EXECUTED = {
    r"train --.*bert/wikitext": "--quick --config.batch_size=32",
    r"train .*--data_dir=": "--quick",
    r"advise ": "--seconds=20",
    r"launch_local": "--config.duration='2 epochs'",
    r"critical-batch": "--steps=180,1260 --batch_sizes=32,512 --seeds=0",
    r"instruments\.": "--config.duration='3 epochs'",
    r"study --config=digits": "--config.duration='2 epochs'",
    r"tfbigbatch soak": "--minutes=0.5 --steps=300",
    r"examples/own_model_16x": "--smoke",
    r"few_steps_jax --results=runs.jsonl": "--results=results/few_steps/jax_runs.jsonl.gz",
    r"train |report|export|scale |explain|study |make train|-m tools\.pages|plan\.py|benchmarks/": "",
}


def _trained(recipe, name):
    return f"tfbigbatch train --config=digits/lstm_{recipe} --config.duration='3 epochs' --model_dir=runs/{name}"


# What a page's commands need that another page's commands, or the sentences around them, have made.
BEFORE = {
    "docs/reports.md": [
        _trained("small_batch", "small_batch"),
        _trained("legw", "legw"),
        _trained("lamb", "lamb"),
        "cp -r runs/legw runs/digits",
    ],
    "docs/why-large-batches-lose-accuracy.md": [
        _trained("small_batch", "small_batch"),
        _trained("naive", "large_batch"),
    ],
    "docs/tpu.md": ["cp results/tpu/imagenet_resnet50_lars_32k_v3-512.json step.json"],
    "tfbigbatch/experiments/README.md": [_trained("lamb", "tune/lamb")],
}


def lay_out(folder, copied=()):
    """Makes `folder` what a clone's root is to the commands, with the Python files of the pages.

    It has links to what is in the root, and copies of `copied`, which commands write to.
    """
    for name in os.listdir(ROOT):
        source, target = os.path.join(ROOT, name), os.path.join(folder, name)
        if name in copied:
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
        elif not name.startswith(".") and name not in _NOT_LINKED:
            os.symlink(source, target)
    for page in PAGES:
        for name, code in page_commands.files_of(page).items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(code)


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """What is wrong with each command, by its words: all of them are checked in one process."""
    folder = tmp_path_factory.mktemp("clone")
    lay_out(folder)
    commands = [each.words for page in PAGES for each in page_commands.of_page(page)]
    commands = list(dict.fromkeys([*commands, *(tuple(shlex.split(text)) for text in WRONG)]))
    (folder / "commands.json").write_text(json.dumps(commands))
    outcome = preloaded.run("tests.helpers.command_checks", "commands.json", folder=folder, PYTHONPATH=ROOT)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return dict(zip(commands, json.loads(outcome.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("page", PAGES)
def test_what_the_commands_name_is_there(page, problems):
    for command in page_commands.of_page(page):
        problem = problems[command.words]
        # In a sentence a command may be named without the flags that it cannot do without.
        if not command.fenced and "is missing" in problem:
            continue
        assert not problem, f"{page}: {command.text}\n{problem}"


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_found(text, problems):
    assert WRONG[text] in problems[tuple(shlex.split(text))]


def line_of(command):
    """What a shell executes for a command of a page; None where there is a reason against it."""
    if any(re.search(part, command.text) for part in NOT_EXECUTED):
        return None
    flags = next((flags for part, flags in EXECUTED.items() if re.search(part, command.text)), None)
    # [--flag=VALUE] is one that may be left out.
    return None if flags is None else " ".join([re.sub(r" '\[.*?\]'", "", command.text), flags])


def fenced(page):
    return [each for each in page_commands.of_page(page) if each.fenced]


def lines_of(page):
    return list(dict.fromkeys(line for each in fenced(page) if (line := line_of(each))))


@pytest.mark.parametrize("page", [page for page in PAGES if fenced(page)])
def test_each_command_is_executed_or_has_a_reason(page):
    for command in fenced(page):
        assert any(re.search(part, command.text) for part in [*NOT_EXECUTED, *EXECUTED]), (
            f"{page}: {command.text}\nA new command: give it a row in EXECUTED of tests/test_commands_of_pages.py, "
            "with flags that let it end within a minute on two cores, or in NOT_EXECUTED, with the reason."
        )


def test_each_row_has_a_command():
    texts = [each.text for page in PAGES for each in fenced(page)]
    for part in [*NOT_EXECUTED, *EXECUTED]:
        assert any(re.search(part, text) for text in texts), f"no command has {part}: remove it"


def run(line, folder):
    """Runs a line in a shell, with the commands of this environment."""
    binaries = os.path.dirname(sys.executable)
    if line.startswith("make "):
        # With this environment in place of one that is installed first.
        line += f" VENV={os.path.dirname(binaries)} -o setup"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
        "PYTHONPATH": ROOT,
        "MPLBACKEND": "agg",
    }
    outcome = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert outcome.returncode == 0, f"{line}\n{outcome.stdout[-1500:]}\n{outcome.stderr[-3000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if lines_of(page)])
def test_the_commands_run(page, tmp_path):
    lay_out(tmp_path, copied=("README.md", "docs", "results"))
    for line in [*BEFORE.get(page, ()), *lines_of(page)]:
        run(line, tmp_path)
