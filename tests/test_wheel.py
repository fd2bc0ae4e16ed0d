"""The wheel as a user installs it: each command runs from an empty folder, without the checkout."""

import email
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

import tfbigbatch
from tests.helpers.preloaded import ROOT
from tfbigbatch.cli.main import COMMANDS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))


def build(source, folder):
    """Path of the wheel in `folder`, built from a copy: what an earlier build left in the checkout has no part in it.

    Args:
      source, folder: two empty folders.
    """
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(os.path.join(ROOT, name), source)
    shutil.copytree(
        os.path.join(ROOT, "tfbigbatch"), source / "tfbigbatch", ignore=shutil.ignore_patterns("__pycache__")
    )
    pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(source))
    [path] = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-compile", f"--target={folder}", str(wheel))
    return folder


def pip(*arguments):
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *arguments],
        check=True,
        env={**os.environ, "PIP_NO_INDEX": "1"},
    )


def tracked():
    """The files of the package in the checkout."""
    found = []
    for folder, _, names in os.walk(os.path.join(ROOT, "tfbigbatch")):
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if not name.endswith(".pyc")]
    return {path for path in found if "__pycache__" not in path}


def test_it_holds_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if name.startswith("tfbigbatch/")}
    assert names == tracked()


def test_its_metadata_are_the_projects(wheel):
    with zipfile.ZipFile(wheel) as file:
        [name] = [each for each in file.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(file.read(name))
    assert (metadata["Name"], metadata["Version"]) == ("tfbigbatch", tfbigbatch.__version__)
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["Requires-Python"] == "<3.14,>=3.11"
    assert "large-batch training" in metadata["Keywords"].split(",")
    assert any(each.startswith("tensorflow<") for each in metadata.get_all("Requires-Dist"))
    assert {"models", "plot", "test"} <= set(metadata.get_all("Provides-Extra"))


def test_the_console_script_has_every_command(installed, tmp_path):
    def run(*command):
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    assert all(f"  {name} " in run(installed / "bin" / "tfbigbatch", "--help") for name in ("train", "sweep"))
    assert run(installed / "bin" / "tfbigbatch", "train", "--help").startswith("usage: tfbigbatch train")
    # The others in one process.
    code = (
        "from tfbigbatch.cli import main; print(main.__file__); [print(main.help_of(name)) for name in main.COMMANDS]"
    )
    out = run(sys.executable, "-c", code)
    assert out.startswith(str(installed)) and all(f"usage: tfbigbatch {name} " in out for name in COMMANDS)
