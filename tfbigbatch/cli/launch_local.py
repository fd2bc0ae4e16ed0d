"""Runs a command as a cluster of processes on this machine, and restarts all of them when one is lost.

    tfbigbatch launch-local --workers=4 --restarts=3 -- \\
      tfbigbatch train --config=digits/lstm_lamb --model_dir=runs/cluster

The processes find each other through TF_CONFIG, on free ports of 127.0.0.1. The trainer resumes from its newest
checkpoint. Ctrl-C or SIGTERM makes all workers save and stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch.cluster import local
from tfbigbatch.errors import InputError


def define_flags() -> None:
    flags.DEFINE_integer("workers", None, "Number of processes.", required=True)
    flags.DEFINE_integer("restarts", 0, "Number of times that all are restarted after one was lost.")
    flags.DEFINE_float("grace", 60.0, "Seconds for workers to save and exit after a stop request; then SIGKILL.")
    flags.DEFINE_float(
        "loss_grace", 20.0, "Seconds for the other workers to exit by themselves after one was lost; then SIGKILL."
    )


def main(arguments: Sequence[str]) -> int:
    options = flags.FLAGS
    if not arguments:
        raise InputError("the command is missing: tfbigbatch launch-local --workers=2 -- COMMAND [ARGUMENT...].")
    limits = local.Limits(options.restarts, options.grace, options.loss_grace)
    return local.launch(arguments, options.workers, limits, say=_print)


def _print(line: str) -> None:
    print(line, flush=True)
