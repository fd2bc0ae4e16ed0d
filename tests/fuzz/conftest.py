"""What the fuzzed cases share, and `make fuzz`: many of them in parts, each part a test.

    python -m pytest -m "slow or not slow" tests/fuzz --fuzz_cases=100000 --fuzz_minutes=4 --fuzz_results=FILE

The cases are shared out among the tests as by their numbers in `few_and_many`. FILE.jsonl has what was run, FILE.md is
its table; the same command runs the parts that are missing, or failed.
"""

import glob
import importlib
import json
import os
import time

import pytest

_HERE = os.path.dirname(os.path.abspath(__file__))
# A part has so many times the cases of the default run: some seconds.
_LARGER = 5


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """The cases are of what files hold, not of power cuts: hundreds of them would wait for the disk for minutes."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def pytest_addoption(parser):
    parser.addoption("--fuzz_cases", type=int, help="Number of cases, in place of each test's own.")
    parser.addoption("--fuzz_minutes", type=float, default=float("inf"), help="After these, no further part is begun.")
    parser.addoption("--fuzz_results", help="Path of the results, without ending.")


def pytest_configure(config):
    if config.getoption("--fuzz_cases", None):
        config.pluginmanager.register(_Parts(config), "parts of the fuzzed cases")


def pytest_generate_tests(metafunc):
    marks = list(metafunc.definition.iter_markers("fuzzed"))
    if not marks:
        return
    few, many = marks[0].args
    parts = metafunc.config.pluginmanager.get_plugin("parts of the fuzzed cases")
    if parts:
        name = f"{metafunc.module.__name__.rpartition('.')[2]}.{metafunc.function.__name__}"
        seeds = [pytest.param(each, id=f"seeds {each.start} to {each.stop - 1}") for each in parts.of(name, few, many)]
    else:
        more = pytest.param(range(few, few + many), id=f"{many} more seeds", marks=pytest.mark.slow)
        seeds = [pytest.param(range(few), id=f"{few} seeds"), more]
    metafunc.parametrize("seeds", seeds)


def _all_marks():
    """The (few, many) of each test in this folder."""
    found = []
    for path in sorted(glob.glob(os.path.join(_HERE, "test_*.py"))):
        module = importlib.import_module(f"tests.fuzz.{os.path.basename(path).removesuffix('.py')}")
        for each in vars(module).values():
            found += [mark.args for mark in getattr(each, "pytestmark", []) if mark.name == "fuzzed"]
    return found


class _Parts:
    """Which cases are run by this process, and what was run before."""

    def __init__(self, config):
        self._cases, self._path = config.getoption("--fuzz_cases"), config.getoption("--fuzz_results")
        self._end = time.monotonic() + 60.0 * config.getoption("--fuzz_minutes")
        self._share = None
        self._done = {}
        if self._path and os.path.exists(f"{self._path}.jsonl"):
            with open(f"{self._path}.jsonl", encoding="utf-8") as file:
                for line in file:
                    part = json.loads(line)
                    self._done.setdefault(part["test"], []).append(part)

    def of(self, name, few, many):
        """The ranges of seeds of a test that are missing."""
        if self._share is None:
            self._share = self._cases / sum(many for _, many in _all_marks())
        end = few + max(1, round(self._share * many))
        ran = [part for part in self._done.get(name, []) if not part["failed"]]
        starts = range(few, end, few * _LARGER)
        whole = [range(start, min(end, start + few * _LARGER)) for start in starts]
        return [each for each in whole if not any(part["first"] <= each.start < part["after"] for part in ran)]

    def pytest_runtest_setup(self, item):
        if time.monotonic() > self._end:
            pytest.skip("the minutes are over; the same command goes on")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if call.when != "call" or report.skipped or "seeds" not in getattr(item, "callspec", _None).params:
            return
        seeds = item.callspec.params["seeds"]
        name = f"{item.module.__name__.rpartition('.')[2]}.{item.function.__name__}"
        part = {"test": name, "first": seeds.start, "after": seeds.stop, "seconds": round(call.duration, 2)}
        part["failed"] = str(call.excinfo.value).splitlines()[0][:300] if report.failed else ""
        others = [each for each in self._done.get(name, []) if each["first"] != seeds.start]
        self._done[name] = sorted([*others, part], key=lambda each: each["first"])
        if self._path:
            # Now, and not at the end: a process that is killed leaves what it had done.
            self._write()

    def _write(self):
        lines, rows = [], ["| reader | cases | seconds | failed |", "|---|---:|---:|---:|"]
        for name, parts in sorted(self._done.items()):
            for part in _joined(parts):
                lines.append(json.dumps(part) + "\n")
            cases = sum(part["after"] - part["first"] for part in parts)
            failed = sum(bool(part["failed"]) for part in parts)
            rows.append(f"| `{name}` | {cases:,} | {sum(part['seconds'] for part in parts):,.0f} | {failed} |")
        every = [part for parts in self._done.values() for part in parts]
        cases, seconds = (
            sum(each) for each in zip(*((part["after"] - part["first"], part["seconds"]) for part in every))
        )
        rows.append(f"| all | {cases:,} | {seconds:,.0f} | {sum(bool(part['failed']) for part in every)} |")
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        for ending, content in (("jsonl", "".join(lines)), ("md", "\n".join(rows) + "\n")):
            with open(f"{self._path}.{ending}", "w", encoding="utf-8") as file:
                file.write(content)


class _None:
    params = ()


def _joined(parts):
    """The parts of a test, those that passed and follow each other in one."""
    found = []
    for part in parts:
        if found and not part["failed"] and not found[-1]["failed"] and found[-1]["after"] == part["first"]:
            seconds = round(found[-1]["seconds"] + part["seconds"], 2)
            found[-1] = {**found[-1], "after": part["after"], "seconds": seconds}
        else:
            found.append(part)
    return found
