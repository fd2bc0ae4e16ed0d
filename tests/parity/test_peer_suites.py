"""The command that runs the peers' test files, on a made-up one."""

from tests.parity import peer_suites
from tests.parity.peer_suites import Suite, problems

MADE_UP = """
import pytest
from peer import LAMB

class TestLamb:
    def test_passes(self):
        assert LAMB == 3

    def test_fails(self):
        assert LAMB == 4, "another LAMB"

@pytest.mark.parametrize("name", ["ours", "ftrl"])
def test_of(name):
    assert name == "ours"

@pytest.mark.skip(reason="no TPU")
def test_skipped():
    raise AssertionError
"""
SUITE = Suite(
    "peer/lamb_test.py", "https://example.org/peer v1",
    names=((r"from peer import LAMB", "LAMB = 3"),), differs=["TestLamb.test_fails"], others=r"\[ftrl\]",
)  # fmt: skip


def test_the_command_runs_a_file_and_compares(tmp_path, monkeypatch, capsys):
    path = tmp_path / "clone" / SUITE.path
    path.parent.mkdir(parents=True)
    path.write_text(MADE_UP)
    monkeypatch.setattr(peer_suites, "SUITES", {"peer/lamb_test": SUITE})
    # The made-up file needs no TensorFlow.
    monkeypatch.setattr(peer_suites, "_DEVICES", "")
    assert peer_suites.main([f"--copies={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["peer/lamb_test: 2 passed, 1 skipped, 1 failed"]


def test_an_unexpected_failure_or_success_is_an_error():
    outcomes = {"a": "passed", "b": "failed: 4 != 3", "c": "failed: no", "d": "skipped"}
    assert problems(outcomes, ["b", "c"]) == []
    assert problems(outcomes, ["a", "c", "e"]) == [
        "b: failed: 4 != 3",
        "a: passed, expected to fail",
        "e: not found, expected to fail",
    ]
