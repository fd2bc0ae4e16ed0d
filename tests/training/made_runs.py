"""Run directories written by hand, for the tests of what reads them."""

import json
import os

from tfbigbatch.training.runs import Row, Run

VERSIONS = {"tensorflow": "2.20.0"}


def write(directory, config, value=None, *, status="done", curve=None, steps=20, step=None, seconds=3.0, metric="accuracy"):
    """A run directory; the curve defaults to two evaluations that end in `value`."""
    os.makedirs(directory, exist_ok=True)
    _json(directory, "config.json", {"config": config, "versions": VERSIONS})
    content = {"status": status, "step": steps if step is None else step, "total_steps": steps, "seconds": seconds}
    if value is not None:
        content["metrics"] = {metric: value}
    _json(directory, "status.json", content)
    if curve is None:
        curve = {} if value is None else {steps // 2: value / 2, steps: value}
    with open(os.path.join(directory, "metrics.jsonl"), "w", encoding="utf-8") as file:
        for at, measured in curve.items():
            file.write(json.dumps({"step": at, "split": "eval", metric: measured}) + "\n")


def row(name, *states, batch_size=512, task="digits_lstm", **numbers):
    """A Row without directories: a state is a value at the end, or words for a status."""
    config = {"task": task, "batch_size": batch_size}
    runs = []
    for seed, state in enumerate(states):
        content = {"step": 20, "total_steps": 20, "seconds": 3.0 + seed, **numbers}
        if isinstance(state, float):
            content |= {"status": "done", "metrics": {"accuracy": state}}
        else:
            content = {} if state == "not started" else {**content, "status": state}
        runs.append(Run("", seed, config, VERSIONS, content))
    return Row(name, config, runs)


def _json(directory, name, content):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        json.dump(content, file)
