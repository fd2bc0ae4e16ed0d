"""A made-up run in place of the trainer: takes no time, and does what it is told. Imports nothing heavy."""

import json
import os
import signal
import sys
import time

from tests.helpers import made_runs
from tfbigbatch import errors


def fake_run(config, *, model_dir, data_dir):
    """Ends at once; what it does otherwise is told by data_dir, a JSON of seed to what."""
    os.makedirs(os.path.dirname(model_dir), exist_ok=True)
    print("threads", os.environ.get("TF_NUM_INTRAOP_THREADS"), flush=True)
    with open(f"{model_dir}.count", "a") as file:
        file.write("x")
    what = json.loads(data_dir or "{}").get(str(config.seed))
    if what == "crash":
        raise RuntimeError("the disk is on fire")
    if what == "diverge":
        made_runs.write(model_dir, config.to_dict(), status="diverged")
        raise errors.DivergedError("the run diverged: loss became nan.")
    if what == "wait" and not os.path.exists(f"{model_dir}.go"):
        signal.signal(signal.SIGTERM, lambda *unused: sys.exit(errors.Preempted.exit_code))
        made_runs.write(model_dir, config.to_dict(), status="preempted", step=5)
        time.sleep(60)
    made_runs.write(model_dir, config.to_dict(), 0.9)
