"""What the READMEs say, works: their Python runs, their links lead somewhere, their commands exist."""

import doctest
import glob
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = [
    os.path.relpath(path, ROOT)
    for pattern in ("*.md", "*/*.md", "docs/results/*.md", "experiments/*/*.md", "results/measurements/*.md")
    for path in glob.glob(os.path.join(ROOT, pattern))
]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


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
