"""The recorded logs of runs: there is one of each run, and a log is compared as it should be."""

import copy

from tests.recorded import runs


def test_each_run_is_recorded_and_what_differs_is_named():
    logs = runs.recorded()
    assert list(logs) == list(runs.RUNS) and set(runs.STOPS) <= set(logs)
    before = logs["legw"]
    assert runs.compared(before, before)[0] == 0.0
    found = copy.deepcopy(before)
    found["rows"][1]["loss"] *= 2
    difference, said = runs.compared(before, found)
    assert difference == 0.5 and "\n    first in step 6, train, loss" in said
