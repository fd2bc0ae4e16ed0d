"""tools/lock.py, with a package index on loopback."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys

import pytest

from tests.helpers import loopback
from tests.helpers.preloaded import ROOT


def file_of(name):
    return {"filename": name, "hashes": {"sha256": hashlib.sha256(name.encode()).hexdigest()}}


def hash_of(name):
    return f"--hash=sha256:{hashlib.sha256(name.encode()).hexdigest()}"


WHEELS = [
    f"some_package-1.0-cp3{minor}-cp3{minor}-{platform}.whl"
    for minor in (11, 12, 13)
    for platform in ("manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64")
]
OTHERS = [
    "some_package-1.0-cp310-cp310-manylinux_2_17_x86_64.whl",
    "some_package-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl",
    "some_package-1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
    "some_package-1.0-cp311-cp311-win_amd64.whl",
    "some_package-1.0.1-py3-none-any.whl",
    "some_package-1.0.tar.gz",
    "some_package-1.0.win32.exe",
]
ABI3, PURE, OLD, NEW, ARCHIVE = (
    "abi3-2-cp39-abi3-manylinux_2_28_x86_64.whl",
    "pure-3.0-py2.py3-none-any.whl",
    "old-4-cp311-cp311-manylinux_2_17_x86_64.whl",
    "new-6-py3-none-any.whl",
    "archive-5.tar.gz",
)
PAGES = {
    "some-package": [*map(file_of, (*WHEELS, *OTHERS))],
    "abi3": [file_of(ABI3)],
    "pure": [file_of(PURE)],
    "old": [file_of(OLD)],
    "new": [{**file_of(NEW), "requires-python": ">=3.11.5"}],
    "archive": [file_of(ARCHIVE)],
    "unhashed": [{"filename": "unhashed-1-py3-none-any.whl", "hashes": {"md5": "0"}}],
    "odd": [{"name": "odd-1-py3-none-any.whl"}],
}


@contextlib.contextmanager
def index():
    def do_GET(handler):
        files = PAGES.get(handler.path.strip("/").removeprefix("simple/"))
        loopback.answer(handler, 404 if files is None else 200, json.dumps({"files": files}).encode())

    with loopback.server(do_GET=do_GET) as address:
        yield f"{address}/simple"


def run(*arguments, **environment):
    command = [sys.executable, os.path.join(ROOT, "tools", "lock.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=100)


def test_each_pin_has_the_hashes_of_the_files_that_fit(tmp_path):
    constraints = tmp_path / "constraints-9.txt"
    constraints.write_text("# a set\nSome_Package==1.0\n\nabi3==2\npure==3.0\nold==4\nnew==6\narchive==5\n")
    with index() as address:
        # The index is pip's, as the environment has it.
        outcome = run(constraints, PIP_INDEX_URL=address, NO_PROXY="127.0.0.1")
    assert outcome.returncode == 0, outcome.stderr
    written = (tmp_path / "requirements-hashed-9.txt").read_text()
    found = [
        part.replace("\\\n", "").split() for part in written.replace("\\\n    ", "").splitlines() if part[0] != "#"
    ]
    assert found == [
        ["Some_Package==1.0", *sorted(map(hash_of, WHEELS))],
        ["abi3==2", hash_of(ABI3)],
        ["pure==3.0", hash_of(PURE)],
        ["old==4", ";", "python_version", "==", '"3.11"', hash_of(OLD)],
        ["new==6", ";", "python_version", "==", '"3.12"', "or", "python_version", "==", '"3.13"', hash_of(NEW)],
        ["archive==5", hash_of(ARCHIVE)],
    ]
    assert "14 hashes" in outcome.stdout


@pytest.mark.parametrize(
    "line, said",
    [
        ("pure>=3.0", "line 1: 'pure>=3.0' is not NAME==VERSION"),
        ("pure==2.0", "has no file of pure 2.0"),
        ("unhashed==1", "states no SHA-256 of unhashed-1-py3-none-any.whl"),
        ("odd==1", "did not answer with the JSON of a simple index"),
        ("unknown==1", "HTTP Error 404"),
    ],
)
def test_what_is_wrong_is_one_message_and_nothing_is_written(tmp_path, line, said):
    (tmp_path / "constraints.txt").write_text(f"{line}\n")
    with index() as address:
        outcome = run(tmp_path / "constraints.txt", f"--index={address}", NO_PROXY="127.0.0.1")
    assert outcome.returncode == 1 and outcome.stderr.startswith("Nothing was written: ") and said in outcome.stderr
    assert os.listdir(tmp_path) == ["constraints.txt"]


def test_an_index_that_is_not_there(tmp_path):
    (tmp_path / "constraints.txt").write_text("pure==3.0\n")
    with index() as address:
        pass
    outcome = run(tmp_path / "constraints.txt", f"--index={address}", NO_PROXY="127.0.0.1")
    assert outcome.returncode == 1 and "Look at the network" in outcome.stderr and "Traceback" not in outcome.stderr
