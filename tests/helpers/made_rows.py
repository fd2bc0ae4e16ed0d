"""Rows without directories, for the tests of what is computed from them."""

from tests.helpers.made_runs import VERSIONS
from tfbigbatch.reports.collect import Row, Run


def row(name, *states, batch_size=512, task="digits_lstm", **numbers):
    """A Row without directories: a state is a value at the end, or words for a status."""
    config = {"task": task, "batch_size": batch_size, "evaluate_on": "test"}
    runs = []
    for seed, state in enumerate(states):
        content = {"step": 20, "total_steps": 20, "seconds": 3.0 + seed, **numbers}
        if isinstance(state, float):
            content |= {"status": "done", "metrics": {"accuracy": state}}
        else:
            content = {} if state == "not started" else {**content, "status": state}
        runs.append(Run("", seed, config, VERSIONS, content))
    return Row(name, config, runs)
