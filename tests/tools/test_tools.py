"""The scripts of tools/ and benchmarks/: each answers --help, and a tool is its sub-command."""

import glob
import os

import pytest

from tests.helpers import preloaded
from tests.helpers.preloaded import ROOT
from tfbigbatch.cli.main import COMMANDS


def is_command(path):
    """Whether it is run; the benchmarks share files that are not."""
    with open(path, encoding="utf-8") as file:
        return 'if __name__ == "__main__":' in file.read()


# For those who work on this repository: no sub-commands.
OF_THE_REPOSITORY = ("audit", "lock", "soak")
FILES = [path for folder in ("tools", "benchmarks") for path in glob.glob(os.path.join(ROOT, folder, "*.py"))]
TOOLS = sorted(os.path.relpath(path, ROOT) for path in FILES if is_command(path))


@pytest.mark.parametrize("name", TOOLS)
def test_it_answers_help(name):
    outcome = preloaded.run(name, "--help")
    assert f"usage: python {name}" in outcome.stdout or name.split("/")[-1] in outcome.stdout


def test_each_tool_calls_its_command():
    for path in glob.glob(os.path.join(ROOT, "tools", "*.py")):
        name = os.path.basename(path).removesuffix(".py")
        with open(path) as file:
            text = file.read()
        if name not in OF_THE_REPOSITORY:
            assert f'main("{name.replace("_", "-")}")' in text and name.replace("_", "-") in COMMANDS
