"""tools/audit.py: with a program in pip-audit's place; and with pip-audit, where `make audit` installed it, and OSV's
answers on loopback."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from tests.helpers import loopback
from tests.helpers.preloaded import ROOT

PIP_AUDIT = os.path.join(ROOT, ".venv-audit", "bin", "pip-audit")
HOLE = {"id": "PYSEC-2099-1", "aliases": ["CVE-2099-0001"], "fix_versions": ["1.1"], "description": "A hole."}


def run(*arguments):
    command = [sys.executable, os.path.join(ROOT, "tools", "audit.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


@pytest.fixture
def constraints(tmp_path):
    (tmp_path / "constraints.txt").write_text("# a set\nsome_package==1.0\nother==2\n")
    return tmp_path / "constraints.txt"


def program(tmp_path, answer, *, code=0, said=""):
    """A program that answers as pip-audit does."""
    path = tmp_path / "pip-audit"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nprint({answer!r})\nprint({said!r}, file=sys.stderr)\nsys.exit({code})\n"
    )
    path.chmod(0o755)
    return f"--pip_audit={path}"


def answers(*of_pins):
    return json.dumps({"dependencies": of_pins, "fixes": []})


FINE = {"name": "some-package", "version": "1.0", "vulns": []}
OTHER = {"name": "other", "version": "2", "vulns": []}


def test_nothing_is_known(tmp_path, constraints):
    outcome = run(program(tmp_path, answers(FINE, OTHER)), constraints)
    assert outcome.returncode == 0 and "2 pins, 0 known vulnerabilities" in outcome.stdout


def test_what_is_known_is_a_line(tmp_path, constraints):
    outcome = run(program(tmp_path, answers({**FINE, "vulns": [HOLE]}, OTHER), code=1), constraints)
    assert outcome.returncode == 1 and "2 pins, 1 known vulnerabilities" in outcome.stdout
    assert "some-package 1.0: PYSEC-2099-1, CVE-2099-0001; fixed in 1.1" in outcome.stdout


@pytest.mark.parametrize(
    "answer, said",
    [
        ("", "answered about 0 of its 2 pins. It needs a network"),
        (answers(FINE), "answered about 1 of its 2 pins"),
        (answers(FINE, {"name": "other", "skip_reason": "not found"}), "1 of its 2 pins are unknown there"),
        ("[]", "was not audited"),
        ("Found!", "was not audited"),
    ],
)
def test_no_answer_is_no_all_clear(tmp_path, constraints, answer, said):
    outcome = run(program(tmp_path, answer, code=1, said="Traceback\nConnectionError: no network"), constraints)
    assert outcome.returncode == 2 and said in outcome.stderr and "Traceback" not in outcome.stderr
    if answer == "":
        assert outcome.stderr.endswith("ConnectionError: no network\n")


def test_one_set_that_was_not_audited_is_more_than_what_is_known_of_another(tmp_path, constraints):
    outcome = run(
        program(tmp_path, answers({**FINE, "vulns": [HOLE]}, OTHER)), tmp_path / "constraints-9.txt", constraints
    )
    assert outcome.returncode == 2 and "constraints-9.txt cannot be read" in outcome.stderr
    assert "1 known" in outcome.stdout


def test_a_program_that_is_not_there(tmp_path, constraints):
    outcome = run(f"--pip_audit={tmp_path}/none", constraints)
    assert outcome.returncode == 2 and "constraints.txt was not audited" in outcome.stderr


@contextlib.contextmanager
def osv(of_package, status=200):
    """The address of a service that knows what a dictionary has, by the package's name."""

    def do_POST(handler):
        query = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        assert query["package"]["ecosystem"] == "PyPI" and query["version"]
        loopback.answer(handler, status, json.dumps(of_package.get(query["package"]["name"], {})).encode())

    with loopback.server(do_POST=do_POST) as address:
        yield f"{address}/v1/query"


@pytest.mark.skipif(not os.path.exists(PIP_AUDIT), reason="make audit has not installed pip-audit")
def test_pip_audit_itself(constraints, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    events = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}
    affected = {"package": {"name": "some-package", "ecosystem": "PyPI"}, "ranges": [events]}
    known = {"id": "PYSEC-2099-1", "aliases": ["CVE-2099-0001"], "summary": "A hole.", "affected": [affected]}
    with osv({"some-package": {"vulns": [known]}}) as address:
        outcome = run(f"--pip_audit={PIP_AUDIT}", f"--osv_url={address}", constraints)
    assert outcome.returncode == 1, outcome.stderr
    assert "some-package 1.0: PYSEC-2099-1, CVE-2099-0001; fixed in 1.1" in outcome.stdout
    with osv({}) as address:
        outcome = run(f"--pip_audit={PIP_AUDIT}", f"--osv_url={address}", constraints)
        assert outcome.returncode == 0 and "2 pins, 0 known" in outcome.stdout
    # Nobody is there any more, and one that fails.
    outcome = run(f"--pip_audit={PIP_AUDIT}", f"--osv_url={address}", constraints)
    assert outcome.returncode == 2 and "answered about 0 of its 2 pins" in outcome.stderr
    with osv({}, status=503) as address:
        outcome = run(f"--pip_audit={PIP_AUDIT}", f"--osv_url={address}", constraints)
    assert outcome.returncode == 2 and "answered about 0 of its 2 pins" in outcome.stderr
