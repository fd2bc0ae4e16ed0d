"""The documentation site: it builds without a warning, asks for nothing from the network, and has every public name."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT, read

PYTHON = sys.executable if importlib.util.find_spec("mkdocs") else None
REFERENCE = os.path.join(ROOT, "docs", "reference")
# The modules with public names, beside those of `tfbigbatch` itself, and their pages.
PACKAGES = {
    "callbacks": "callbacks.md",
    "config": "config.md",
    "export": "runs.md",
    "instruments": "instruments.md",
    "models": "models.md",
    "optimizers": "optimizers.md",
    "optimizers.rule": "rules.md",
    "schedules": "schedules.md",
    "sweeps": "sweeps.md",
    "tasks": "tasks.md",
    "train": "config.md",
}
MOST_NAMES = 70


def documented(text):
    """The names that a page of the reference has, without their modules."""
    return set(re.findall(r"^::: tfbigbatch(?:\.\w+)*\.(\w+)$", text, re.MULTILINE))


def test_the_reference_has_every_name_of_the_top():
    import tfbigbatch

    pages = "".join(read("docs", "reference", name) for name in os.listdir(REFERENCE))
    assert set(tfbigbatch.__all__) - {"__version__"} <= documented(pages)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package):
    module = importlib.import_module(f"tfbigbatch.{package}")
    assert set(module.__all__) <= documented(read("docs", "reference", PACKAGES[package]))


def test_there_are_few_public_names():
    pages = "".join(read("docs", "reference", name) for name in os.listdir(REFERENCE))
    assert len(re.findall(r"^::: ", pages, re.MULTILINE)) <= MOST_NAMES
    # A page of a whole module would have names that nobody counts.
    modules = {f"tfbigbatch.{name}" for name in PACKAGES} | {"tfbigbatch.errors"}
    assert not modules & set(re.findall(r"^::: (.*)$", pages, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.skipif(
    PYTHON is None, reason="the packages of the site are not installed: `make docs` makes an environment of them"
)
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    options = ["--quiet", "--strict", f"--site-dir={tmp_path}", "--config-file=docs/site/mkdocs.yml"]
    command = [PYTHON, "-m", "mkdocs", "build", *options]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    pages = [os.path.join(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    for path in (each for each in pages if each.endswith(".html")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert not re.findall(r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//", text), path
        assert not re.findall(r"<link(?![^>]*canonical)[^>]* href=\"?(?:https?:)?//", text), path
        assert not re.findall(r"<t[dh][^>]*>[^<]*<code>[^<]*\\\|", text), path
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<title>tfbigbatch: Large-batch training for Keras and TensorFlow</title>" in start
    assert "64\u00a0→\u00a02,048" in start
    notebook = (tmp_path / "examples" / "own_model.ipynb.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in notebook and 'href="own_model_16x.py.html"' in notebook
    page = (tmp_path / "docs" / "reference" / "optimizers.html").read_text(encoding="utf-8")
    assert "Layer-wise Adaptive Moments" in page and "micro-batches in a step" in page
