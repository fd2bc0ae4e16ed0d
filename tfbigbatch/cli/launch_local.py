"""Runs a command as a cluster of processes on this machine, and restarts all of them when one is lost.

    tfbigbatch launch-local --workers=4 --restarts=3 -- \\
      tfbigbatch train --config=digits/lstm_lamb --model_dir=runs/cluster

The processes find each other through TF_CONFIG, on free ports of 127.0.0.1. The trainer resumes from its newest
checkpoint. Ctrl-C or SIGTERM makes all workers save and stop.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cluster import local
from tfbigbatch.errors import InputError


def define_flags() -> None:
    flags.DEFINE_integer("workers", None, "Number of processes.", required=True, lower_bound=1)
    flags.DEFINE_integer("restarts", 0, "Number of times that all are restarted after one was lost.", lower_bound=0)
    flags.DEFINE_float("grace", 60.0, "Seconds for workers to save and exit after a stop; then SIGKILL.", lower_bound=0)
    flags.DEFINE_float(
        "loss_grace", 20.0, "Seconds for the others to exit by themselves after a loss; then SIGKILL.", lower_bound=0
    )


def main(arguments: Sequence[str]) -> int:
    options = flags.FLAGS
    if not arguments:
        raise InputError("the command is missing: tfbigbatch launch-local --workers=2 -- COMMAND [ARGUMENT...].")
    limits = {name: options[name].value for name in ("restarts", "grace", "loss_grace")}
    return local.launch(arguments, options.workers, **limits, say=functools.partial(print, flush=True))
