"""What the READMEs say, works: their Python runs, their links lead somewhere; the commands of the pages for beginners.

The slow tests run these commands.
"""

import doctest
import glob
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT, read
from tfbigbatch.cli import main

PAGES = [
    os.path.relpath(path, ROOT)
    for pattern in ("*.md", "*/*.md", "docs/results/*.md", "experiments/*/*.md", "results/measurements/*.md")
    for path in glob.glob(os.path.join(ROOT, pattern))
]
WITH_COMMANDS = ("README.md", "docs/start.md", "docs/your_own.md")
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# By how a command begins: None where it is not run, as it installs packages or serves until it is ended; or flags that
# let it end within a minute on two cores.
RUN = {
    "pip ": None,
    "tensorboard ": None,
    "make train": f"VENV={os.path.dirname(os.path.dirname(sys.executable))} -o setup",
    "python examples/own_model_16x.py": "--smoke",
    "tfbigbatch train": "",
    "tfbigbatch tune": "--config.duration='2 epochs'",
    "tfbigbatch report": "",
    "tfbigbatch scale": "",
    "tfbigbatch sweep": "--config.duration='2 epochs'",
    "tfbigbatch export": "",
}


def test_the_first_snippet_shows_what_lamb_buys():
    snippet = re.search(r"```python\n(import tensorflow.*?)```", read("README.md"), re.DOTALL)[1]
    names = {}
    exec(snippet, names)
    assert names["after"] > names["before"] + 0.02 and names["after"] > 0.96


def test_the_readme_is_short():
    assert len(read("README.md").splitlines()) <= 125


def test_the_sessions_print_what_they_show():
    assert doctest.testfile(os.path.join(ROOT, "README.md"), module_relative=False).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_links_and_commands_lead_somewhere(page):
    text = read(page)
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", text):
        assert os.path.exists(os.path.join(ROOT, os.path.dirname(page), target)), target
    for target in re.findall(r"(?:python |--config=)((?:tools|experiments)/\S+?\.py)", text):
        assert os.path.exists(os.path.join(ROOT, target)), target
    made = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert target in made, target


def blocks(page):
    """(info, text) of each fenced block."""
    return _BLOCK.findall(read(page))


def commands(page):
    """The lines of the page's blocks of shell, without comments."""
    lines = []
    for info, text in blocks(page):
        if not info.startswith(("python", "yaml", "bibtex", "json")):
            lines += [re.sub(r"\s+#.*", "", line).strip() for line in text.replace("\\\n", "").splitlines()]
    return [line for line in lines if line.startswith(tuple(RUN)) or re.match(r"(tfbigbatch|python|make) ", line)]


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_programs_and_flags_exist(page):
    assert commands(page)
    for line in commands(page):
        program, *words = shlex.split(line)
        if program == "tfbigbatch":
            known = re.findall(r"^  --(?:\[no\])?([\w-]+)", main.help_of(words[0]), re.MULTILINE)
            given = [re.match(r"--(\w+)", word)[1] for word in words if word.startswith("--")]
            assert set(given) <= {*known, "config"}, line
        elif program == "python":
            assert os.path.exists(os.path.join(ROOT, words[0])), line
        elif program == "make":
            assert re.search(rf"^{words[0]}:", read("Makefile"), re.MULTILINE), line
        assert line.startswith(tuple(RUN)), f"{line}\nA new command: give it an entry in RUN"


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_the_commands_run(page, tmp_path):
    """In a folder with links to what a clone has, and with the files that the page has the reader write."""
    for name in os.listdir(ROOT):
        if not name.startswith(".") and name not in ("build", "runs", "dist"):
            os.symlink(os.path.join(ROOT, name), tmp_path / name)
    for info, code in blocks(page):
        if re.fullmatch(r"python \w+\.py", info):
            (tmp_path / info.split()[1]).write_text(code)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": ROOT, "MPLBACKEND": "agg"}
    for line in commands(page):
        more = next(flags for start, flags in RUN.items() if line.startswith(start))
        if more is not None:
            outcome = subprocess.run(
                f"{line} {more}", shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
            )
            assert outcome.returncode == 0, f"{line}\n{outcome.stdout[-1500:]}\n{outcome.stderr[-3000:]}"
