"""Runs a command as a cluster of processes on this machine, and starts all again where one is lost.

    python tools/launch_local.py --workers=4 --restarts=3 -- \\
      python -m tfbigbatch.train --config=experiments/digits/lstm_lamb.py --model_dir=runs/cluster

Each process finds the others through TF_CONFIG, on free ports of 127.0.0.1. The trainer goes on from its newest
checkpoint. Ctrl-C or SIGTERM asks all workers to save and stop.
"""

from absl import flags

from tfbigbatch.cluster import local
from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

flags.DEFINE_integer("workers", None, "Processes to start.", required=True)
flags.DEFINE_integer("restarts", 0, "How often all are started again after one was lost.")
flags.DEFINE_float("grace", 60.0, "Seconds for workers to save and end once a stop was asked for; then SIGKILL.")
flags.DEFINE_float("loss_grace", 20.0, "Seconds for the others to end by themselves once one was lost; then SIGKILL.")


def _main(arguments):
    options = flags.FLAGS
    if not arguments:
        raise InputError("the command is missing: python tools/launch_local.py --workers=2 -- COMMAND [ARGUMENT...].")
    limits = local.Limits(options.restarts, options.grace, options.loss_grace)
    return local.launch(arguments, options.workers, limits, say=_say)


def _say(line):
    print(line, flush=True)


if __name__ == "__main__":
    command.execute(_main, takes_arguments=True)
