"""The console script: its list of commands, their help, and what it says to a mistyped one."""

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.helpers.preloaded import ROOT
from tfbigbatch import __version__
from tfbigbatch.cli.main import COMMANDS, overview

HEAVY = {"tensorflow", "tf_keras", "keras", "matplotlib", "official"}


def tfbigbatch(*arguments):
    command = [sys.executable, "-m", "tfbigbatch", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_it_lists_its_commands_with_a_line_each():
    listed = tfbigbatch("--help")
    assert listed.returncode == 0 and listed.stdout.strip() == overview()
    for name, command in COMMANDS.items():
        assert f"  {name:18s}{command.summary}" in listed.stdout and len(command.summary) < 100
    alone = tfbigbatch()
    assert alone.returncode == 1 and alone.stdout == listed.stdout
    assert tfbigbatch("--version").stdout == f"tfbigbatch {__version__}\n"


def test_there_are_few_commands():
    assert len(COMMANDS) <= 16


def test_the_nearest_command_is_named():
    wrong = tfbigbatch("sewep", "--model_dir=x")
    assert wrong.returncode == 1 and "error: 'sewep' is not a command. Did you mean 'sweep'?" in wrong.stderr
    # As the files of tools/ are named.
    assert "--source" in tfbigbatch("prepare_bert", "--help").stdout


@pytest.fixture(scope="module")
def shown():
    """The help of each command, twice, and the modules that this imports; of a process without others' flags."""
    code = (
        "import json, sys; from tfbigbatch.cli import main; "
        "help, again = ({name: main.help_of(name) for name in main.COMMANDS} for _ in range(2)); "
        "print(json.dumps({'help': help, 'again': again, 'modules': list(sys.modules)}))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return json.loads(out)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_and_lists_all_flags(name, shown):
    text = shown["help"][name]
    assert text.startswith(f"usage: tfbigbatch {name} ") and "\n    tfbigbatch " in text
    with open(os.path.join(ROOT, "tfbigbatch", "cli", f"{COMMANDS[name].module.replace('.', '/')}.py")) as file:
        defined = [
            call.args[0].value
            for call in ast.walk(ast.parse(file.read()))
            if isinstance(call, ast.Call)
            and getattr(call.func, "attr", "").startswith("DEFINE_")
            and isinstance(call.args[0], ast.Constant)
        ]
    assert "\n  --" in text
    for flag in defined:
        assert f"\n  --{flag}=" in text or f"\n  --[no]{flag}\n" in text
    # The flags of one command are not left to the next.
    assert shown["again"][name] == text


def test_help_needs_no_tensorflow(shown):
    assert "tfbigbatch.train" in shown["modules"] and not HEAVY & set(shown["modules"])
