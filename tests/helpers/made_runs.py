"""Run directories written by hand, for the tests of what reads them; imports nothing heavy."""

import json
import math
import os

VERSIONS = {"tensorflow": "2.20.0"}


def write(
    directory,
    config,
    value=None,
    *,
    status="done",
    curve=None,
    steps=20,
    step=None,
    seconds=3.0,
    metric="accuracy",
    train=None,
    reason=None,
):
    """A run directory; the curve defaults to two evaluations that end in `value`; `train` is step to scalars."""
    os.makedirs(directory, exist_ok=True)
    _json(directory, "config.json", {"config": config, "versions": VERSIONS})
    content = {"status": status, "step": steps if step is None else step, "total_steps": steps, "seconds": seconds}
    if value is not None:
        # As the trainer writes it: null for what is not finite.
        content["metrics"] = {metric: value if math.isfinite(value) else None}
    if reason is not None:
        content["reason"] = reason
    _json(directory, "status.json", content)
    if curve is None:
        curve = {} if value is None else {steps // 2: value / 2, steps: value}
    with open(os.path.join(directory, "metrics.jsonl"), "w", encoding="utf-8") as file:
        for at, scalars in (train or {}).items():
            file.write(json.dumps({"step": at, "split": "train", **scalars}) + "\n")
        for at, measured in curve.items():
            file.write(json.dumps({"step": at, "split": "eval", metric: measured}) + "\n")


def _json(directory, name, content):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        json.dump(content, file)
