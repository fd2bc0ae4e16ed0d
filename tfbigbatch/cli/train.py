"""Trains one experiment in one run directory; the same command resumes it.

    tfbigbatch train --config=digits/lstm_legw --model_dir=runs/digits
    tfbigbatch train --config=digits/lstm_legw --model_dir=runs/digits --config.batch_size=1024
    tfbigbatch train --config=mnist/lstm_legw --quick

--config is an experiment file, or the name of one that the package ships, with its argument after a colon where it
takes one (bert/lamb:32k). --config.FIELD=VALUE overrides a field of it. --quick makes it small: for minutes on the data
in --data_dir, or without it for seconds on made-up data, which needs no --model_dir. A directory that holds a run needs
no --config: --model_dir=RUN alone resumes the run with its own config and data, and --mode=eval evaluates it. A
finished run is reported as such; --extend trains it for longer. SIGTERM, Ctrl-C and preemption notices save a
checkpoint and end the command with code 42.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import ml_collections
from absl import flags

from tfbigbatch.cli import experiment_flags
from tfbigbatch.cluster import tf_config
from tfbigbatch.cluster.preemption_notice import PreemptionNotice
from tfbigbatch.cluster.watchdog import Watchdog, worker_loss
from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.run_directory import stored_run
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.train import run, run_on_made_up_data
from tfbigbatch.training.options import MODES
from tfbigbatch.utils import command
from tfbigbatch.utils.signals import exiting_on_signals

# For the workers of a cluster, in seconds: longer than a large model takes to compile.
_STALL_TIMEOUT = 1800.0


def define_flags() -> None:
    flags.DEFINE_string(
        "config", None, "Experiment file, or the name of a shipped experiment; --config.FIELD=VALUE overrides a field."
    )
    experiment_flags.define_override()
    flags.DEFINE_string("model_dir", None, "Run directory. A directory that holds a run is resumed.")
    flags.DEFINE_string("data_dir", None, "Folder of the task's data; a run remembers it.")
    flags.DEFINE_string(
        "init_from",
        None,
        "Begin a new run with the weights of another: its run directory (the newest checkpoint), RUN/best, or a "
        "checkpoint. Weights are matched by name; the optimizer starts fresh.",
    )
    flags.DEFINE_bool(
        "extend",
        False,
        "Train a finished run for longer: with --config.duration='20 epochs', a longer one than before.",
    )
    flags.DEFINE_enum("mode", "train_and_eval", MODES, "What to do; eval measures the newest checkpoint.")
    # A plain string: the error for an unknown one then names the nearest, as all our errors do.
    flags.DEFINE_string("strategy", "auto", "auto, one_device, mirrored, multi_worker or tpu.")
    flags.DEFINE_string("tpu", None, "'local' on a TPU VM, the TPU's name, or its grpc:// address.")
    experiment_flags.define_quick()
    flags.DEFINE_string(
        "mlperf_log",
        None,
        "Also write a log by MLPerf's rules to this file (ResNet with LARS, BERT with LAMB, GNMT with Adam).",
    )
    flags.DEFINE_float(
        "stall_timeout",
        None,
        "Seconds without a step, an evaluated batch or a checkpoint after which the process exits with code 75, so "
        f"that all workers are restarted; 0 for never. Default: {_STALL_TIMEOUT:g} in a cluster, otherwise 0.",
        lower_bound=0.0,
    )
    flags.DEFINE_string(
        "preemption_notice",
        "auto",
        "Source of preemption notices: gce (Google Cloud's metadata server), none, or auto (gce on Google's "
        "machines). On a notice the run is saved and stopped, as on SIGTERM.",
    )
    flags.DEFINE_list("profile_steps", None, "FIRST,LAST: steps to profile for TensorBoard.")


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    config = config_of(options)
    if options.strategy == "multi_worker" and "TF_CONFIG" not in os.environ and tf_config.is_slurm_step(os.environ):
        os.environ["TF_CONFIG"] = tf_config.slurm_tf_config(os.environ)
    window = command.numbers("profile_steps", options.profile_steps or [], int)
    if options.profile_steps is not None and (len(window) != 2 or not 0 <= window[0] < window[1]):
        shown = ",".join(options.profile_steps)
        raise InputError(f"--profile_steps={shown}: expected FIRST,LAST with 0 <= FIRST < LAST, as 10,20.")
    made_up = options.quick and options.data_dir is None
    if options.model_dir is None and not made_up:
        raise InputError("--model_dir is missing: give a directory for the run, such as --model_dir=runs/digits.")
    given: dict[str, Any] = {
        "mode": options.mode,
        "strategy_name": options.strategy,
        "tpu": options.tpu,
        "profile_steps": tuple(window) or None,
        "mlperf_log": options.mlperf_log,
        "init_from": options.init_from,
        "extend": options.extend,
        "watch_preemption": PreemptionNotice(options.preemption_notice).watching,
    }
    timeout = options.stall_timeout
    if timeout is None:
        timeout = _STALL_TIMEOUT if os.environ.get("TF_CONFIG") else 0.0
    # Before and after training, which has its own handlers. While TensorFlow joins the workers of a cluster no handler
    # of Python would run: the default action ends the process there.
    in_cluster = "TF_CONFIG" in os.environ
    handling = contextlib.nullcontext() if in_cluster else exiting_on_signals(Preempted.exit_code)
    with handling, Watchdog(timeout) as watchdog, worker_loss():
        if made_up:
            with tempfile.TemporaryDirectory() as temporary:
                folder = options.model_dir or temporary
                run_on_made_up_data(config, model_dir=folder, heartbeat=watchdog.heartbeat, **given)
        else:
            run(
                config,
                model_dir=options.model_dir,
                data_dir=options.data_dir,
                heartbeat=watchdog.heartbeat,
                **given,
            )


def config_of(options: flags.FlagValues) -> ml_collections.ConfigDict:
    """The config of --config with the overrides of --config.FIELD; or that of the run in --model_dir.

    The run's own counts where there is no --config, in an evaluation, and with --extend.

    Raises:
      ValueError: there is none, or a field is unknown or mistyped.
    """
    given = None
    if options.config or not options.model_dir:
        given = experiment_flags.load(options.config, options)
        continues = options.mode == "eval" or options.extend
        if not (options.model_dir and continues and RunDirectory(options.model_dir).content()):
            return given
    assignments = experiment_flags.overrides(options)
    if options.extend and given is not None:
        assignments.append(f"duration={given.duration}")
    config, lines = stored_run.config_for(options.model_dir, assignments, given)
    for line in lines:
        print(line, flush=True)
    return config
