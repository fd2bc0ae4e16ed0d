"""The made-up trainer of candidates in another process, told by a file beside the run directory what to do first."""

import os
import signal
import time

from tests.helpers.fake_trainer import TOTAL, fake_trainer
from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.run_directory.directory import RunDirectory

HALFWAY = 5  # steps


def told_trainer(config, *, model_dir, stop_after=None):
    """Trains to a step; its log has its process."""
    print(f"process {os.getpid()}", flush=True)
    what = _told(model_dir)
    if what == "refuse":
        raise InputError("a batch of nothing")
    if what == "crash":
        raise RuntimeError("the disk is on fire")
    if what:
        fake_trainer(config, model_dir=model_dir, stop_after=steps_in(model_dir) + HALFWAY)

        def stop(*unused):
            RunDirectory(model_dir).write_status("preempted", step=steps_in(model_dir), total_steps=TOTAL)
            raise Preempted("stopped on request")

        signal.signal(signal.SIGTERM, stop)
        if what != "wait":
            process = os.getppid() if what == "kill the parent" else os.getpid()
            os.kill(process, signal.SIGTERM if what == "terminate" else signal.SIGKILL)
        time.sleep(60)
    fake_trainer(config, model_dir=model_dir, stop_after=stop_after)


def tell(model_dir, *lines):
    """What the next calls do first, a line each."""
    with open(f"{model_dir}.tell", "w") as file:
        file.write("\n".join(lines))


def _told(model_dir):
    if not os.path.exists(f"{model_dir}.tell"):
        return ""
    with open(f"{model_dir}.tell") as file:
        first, *others = [*file.read().splitlines(), ""]
    tell(model_dir, *others)
    return first


def calls(model_dir):
    """(first step, last step) of each call that trained."""
    with open(f"{model_dir}.calls") as file:
        return [tuple(map(int, line.split())) for line in file]


def processes(model_dir):
    """The process of each call."""
    with open(f"{model_dir}.log") as file:
        return [int(line.split()[1]) for line in file if line.startswith("process ")]


def steps_in(model_dir):
    """The step that a run directory is at."""
    return RunDirectory(model_dir).status().get("step", 0)
