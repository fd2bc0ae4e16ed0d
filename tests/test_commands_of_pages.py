"""The shell commands of the pages: what they name is there, and those that end within minutes are executed."""

import json
import os
import shlex

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
    "tfbigbatch study --study=mnist/study --model_dir=runs --only=LAMP": "LAMP",
    "tfbigbatch study --config=digits/lstm_lamb --model_dir=runs --sweep.batchsize=1,2": "no field 'batchsize'",
    "tfbigbatch launch-local --workers=2 -- tfbigbatch train --seed=x": "--seed=x",
    "python tools/study.py --model_dirs=runs": "Unknown command line flag 'model_dirs'",
    "python tools/studies.py": "no such file",
    "python -m tfbigbatch.trainer": "no module",
    "python benchmarks/gpu.py run --dirs=runs": "--dir",
    "python benchmarks/lstm.py --result=x.json": "Unknown command line flag 'result'",
    "python examples/tfds_digits.py --smoke": "takes no arguments",
    "make tests": "no target tests",
    "make test PYTHONS=python3": "no variable PYTHONS",
    "pip install '.[model]'": "no extra model",
    "python -m pytest tests/fuzzy": "no such file",
}


def lay_out(folder):
    """Makes `folder` what a clone's root is to a command that is only checked, with the Python files of the pages."""
    for name in os.listdir(ROOT):
        if not name.startswith(".") and name not in _NOT_LINKED:
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
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
