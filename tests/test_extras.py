import glob
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import tensorflow as tf

from tests.helpers.repository import ROOT, read
from tests.test_wheel import build

LINES = {line: f"requirements/tensorflow-{line}.txt" for line in ("2.20", "2.21")}
PIN = re.compile(r"([\w.-]+)==([\w.]+)(?: ; [^\\\n]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(read("pyproject.toml"))["project"]


def pins(name):
    """Version by package, of a file in which each pin has its hashes."""
    text = read(name)
    assert PIN.sub("", text) == ""
    return {match[1].replace("-", "_"): match[2] for match in PIN.finditer(text)}


def test_each_line_of_tensorflow_has_its_pinned_set(project):
    assert "tensorflow>=2.20,<2.22" in project["dependencies"]
    assert project["optional-dependencies"]["keras2"] == ["tf_keras>=2.20,<2.22"]
    found = {os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "requirements", "*"))}
    assert found == {"build.txt", "tools.txt", *map(os.path.basename, LINES.values())}
    assert {"setuptools", "wheel"} <= set(pins("requirements/build.txt"))
    assert {"pip_audit", "uv"} <= set(pins("requirements/tools.txt"))
    for line, name in LINES.items():
        versions = pins(name)
        assert all(versions[each].startswith(f"{line}.") for each in ("tensorflow", "tf_keras"))
        assert ("tf_models_official" in versions) == ("tensorflow_addons" in versions) == (line == "2.20")


def test_the_installed_versions_are_those_of_their_line():
    line = ".".join(tf.__version__.split(".")[:2])
    versions = pins(LINES[line])
    assert all(importlib.metadata.version(name) == versions[name] for name in ("tensorflow", "tf_keras"))


# NVIDIA's libraries, 3 GB, are for a machine with a GPU; the others are unions, which `make test` installs.
WITHOUT_PROGRAM = {"gpu", "parity", "test", "all"}
PROGRAMS = os.path.join(ROOT, "tests", "helpers", "extras", "with_{}.py")


def test_each_extra_has_a_program_that_runs_with_it_alone(project):
    programs = {re.search(r"with_(\w+)\.py$", path)[1].replace("_", "-") for path in glob.glob(PROGRAMS.format("*"))}
    assert programs == set(project["optional-dependencies"]) - WITHOUT_PROGRAM


@pytest.mark.slow
@pytest.mark.skipif(not tf.__version__.startswith("2.20."), reason="the extra `models` needs TensorFlow 2.20")
@pytest.mark.parametrize("extra", [os.path.basename(path)[5:-3] for path in sorted(glob.glob(PROGRAMS.format("*")))])
def test_an_extra_is_enough_in_a_fresh_environment(extra, tmp_path_factory):
    """Some minutes and 2 GB of disk each, and it needs the package index."""
    source, built, made, folder = (tmp_path_factory.mktemp(name) for name in ("source", "built", "made", "empty"))
    wheel, python = build(source, built), str(made / "bin" / "python")
    # Without hashes: with them pip would want one of the wheel too.
    (source / "pins.txt").write_text("".join(f"{name}=={pin}\n" for name, pin in pins(LINES["2.20"]).items()))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = [python, "-m", "pip", "install", "--quiet", "--use-pep517", "--constraint", str(source / "pins.txt")]
    try:
        for command in (
            [sys.executable, "-m", "venv", made],
            [*install, f"tfbigbatch[{extra.replace('_', '-')}] @ file://{wheel}"],
            [python, "-m", "pip", "check"],
            # Without the folder of the program on the path.
            [python, "-P", PROGRAMS.format(extra), ROOT],
        ):
            outcome = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize("line, folder", [("2.20", "absent"), ("2.21", "absent"), ("2.21", None)])
def test_make_chooses_a_line_and_verifies_it(line, folder):
    """As from a shell, without the variables of the `make` that runs the tests; `absent`: in a fresh clone."""
    theirs = ("MAKE", "MFLAGS", "VENV", "PYTHON", "TENSORFLOW")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    command = ["make", "--dry-run", "test", f"TENSORFLOW={line}", *([f"VENV={folder}"] if folder else [])]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert outcome.returncode == 0, outcome.stderr
    plan = outcome.stdout
    assert f"{folder or '.venv-2.21'}/bin/python -m pytest" in plan
    if folder:
        assert f"--require-hashes --no-deps --no-build-isolation --requirement {LINES[line]}" in plan
        # Of this package alone there is no hash.
        assert plan.count("pip install") == plan.count("--require-hashes") + 1
