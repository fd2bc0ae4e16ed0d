"""The command that runs the peers' test files, on a made-up one."""

import os

import pytest

from tests.parity import peer_suites
from tests.parity.peer_differences import EXPECTED
from tests.parity.peer_suites import Result, Suite, compare

MADE_UP = """
import pytest
from peer import LAMB

class LambTest:
    pass

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
    "peer/lamb_test", "peer/lamb_test.py", "https://example.org/peer", "v1",
    names=((r"from peer import LAMB", "LAMB = 3"),), others=r"\[ftrl\]",
)  # fmt: skip


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """A folder with a clone that holds the made-up file, which is the only suite."""
    path = tmp_path / "clone" / SUITE.path
    path.parent.mkdir(parents=True)
    path.write_text(MADE_UP)
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- table of peer_suites.py -->\nold\n<!-- end of the table -->\nend\n")
    monkeypatch.setattr(peer_suites, "SUITES", (SUITE,))
    # The made-up file needs no TensorFlow.
    monkeypatch.setattr(peer_suites, "_DEVICES", "")
    return str(tmp_path)


def test_the_command_runs_a_file_and_compares(copies, monkeypatch, capsys):
    page = os.path.join(copies, "page.md")
    monkeypatch.setitem(EXPECTED, SUITE.name, [("Another formula:", ["TestLamb.test_fails"])])
    assert peer_suites.main([f"--copies={copies}", f"--write={page}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["peer/lamb_test: 2 passed, 1 skipped, 1 failed"]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert "| peer/lamb_test | v1 | 4 | 2 | 1 | 1 |" in text and "old" not in text and text.endswith("end\n")
    assert "\n\n**peer/lamb_test**\n\n- Another formula: `TestLamb.test_fails`\n" in text


def test_an_unexpected_failure_or_success_is_an_error():
    result = Result({"a": "passed", "b": "failed", "c": "failed", "d": "skipped"}, {"b": "4 != 3", "c": "no"})
    assert compare(result, ["b", "c"]) == []
    assert compare(result, ["a", "c", "d", "e"]) == [
        "fails, and is not in the list: b: 4 != 3",
        "is in the list, and passed: a",
        "is in the list, and skipped: d",
        "is in the list, and was not found: e",
    ]


def test_every_difference_is_of_a_suite_and_has_a_reason():
    assert set(EXPECTED) <= {suite.name for suite in peer_suites.SUITES}
    for differences in EXPECTED.values():
        assert all(reason.endswith(":") and tests for reason, tests in differences)
