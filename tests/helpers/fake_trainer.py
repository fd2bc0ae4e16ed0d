"""A made-up trainer of candidates: writes the curve of a known optimum, takes no time. Imports nothing heavy."""

import json
import math
import os

from tests.helpers import made_runs
from tfbigbatch.errors import DivergedError
from tfbigbatch.run_directory.directory import RunDirectory

TOTAL, BEST_RATE, DIVERGES_ABOVE = 100, 0.4, 3.0


def final_loss(config):
    """The loss that a run ends at: lowest at BEST_RATE."""
    return 1.0 + 0.1 * math.log2(config.schedule.learning_rate / BEST_RATE) ** 2


def fake_trainer(config, *, model_dir, stop_after=None):
    """Trains from the step in `model_dir` on; its log has a line for each call: where it began and where it ended."""
    folder = RunDirectory(model_dir)
    begun, end = folder.status().get("step", 0), stop_after or TOTAL
    diverges = config.schedule.learning_rate > DIVERGES_ABOVE
    end = min(end, 10) if diverges else end
    os.makedirs(model_dir, exist_ok=True)
    with open(f"{model_dir}.calls", "a") as file:
        file.write(f"{begun} {end}\n")
    rows = [(step, final_loss(config) + 2.0 * math.exp(-step / 20)) for step in range(begun + 1, end + 1)]
    with open(folder.metrics, "a") as file:
        for step, loss in rows:
            file.write(json.dumps({"step": step, "split": "train", "loss": loss, "examples_per_second": 1000.0}) + "\n")
    with open(os.path.join(model_dir, "config.json"), "w") as file:
        json.dump({"config": config.to_dict(), "versions": made_runs.VERSIONS}, file)
    if diverges:
        folder.write_status("diverged", step=end, total_steps=TOTAL)
        raise DivergedError("the run diverged: loss became nan.")
    metrics = {"metrics": {"accuracy": 1.0 - 0.1 * final_loss(config)}} if end == TOTAL else {}
    folder.write_status("running" if end < TOTAL else "done", step=end, total_steps=TOTAL, **metrics)
