"""The trainer's command line: its flags, and what they say together."""

import os
import sys

import ml_collections
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.utils import command

MODES = ("train", "eval", "train_and_eval")
# Of the workers of a cluster, in seconds: longer than a large model takes to compile. One process waits for nobody.
_STALL_TIMEOUT = 1800.0


def define():
    """Defines the flags of the trainer."""
    from ml_collections import config_flags

    config_flags.DEFINE_config_file("config", None, "The experiment file; --config.FIELD=VALUE overrides a field.")
    flags.DEFINE_string("model_dir", None, "The run directory. A directory with a run in it is resumed.")
    flags.DEFINE_string("data_dir", None, "Where the data lies; see the task's file for what it expects.")
    flags.DEFINE_enum("mode", "train_and_eval", MODES, "What to do.")
    # A plain string: the error for an unknown one then names the nearest, as all our errors do.
    flags.DEFINE_string("strategy", "auto", "auto, one_device, mirrored, multi_worker or tpu.")
    flags.DEFINE_string("tpu", None, "'local' on a TPU VM, the TPU's name, or its grpc:// address.")
    flags.DEFINE_integer("seed", None, "Overrides --config.seed.")
    flags.DEFINE_bool("smoke", False, "Run in seconds on fake data with a tiny model; --model_dir may be left out.")
    flags.DEFINE_enum("mixed_precision", None, experiment.PRECISIONS, "Overrides --config.mixed_precision.")
    flags.DEFINE_string(
        "mlperf_log",
        None,
        "Also write a log by MLPerf's rules to this file (ResNet with LARS, BERT with LAMB, GNMT with Adam).",
    )
    flags.DEFINE_float(
        "stall_timeout",
        None,
        "Seconds without an update, an evaluated batch or a checkpoint after which the process ends with exit code 75, "
        "for all workers to be started again; 0 for never.",
        lower_bound=0.0,
    )
    flags.DEFINE_string(
        "preemption_notice",
        "auto",
        "Whose notices that the machine will be taken away to look for: gce, Google Cloud's metadata server; none; or "
        "auto, gce on Google's machines. The run is then saved and stopped, as by SIGTERM.",
    )
    flags.DEFINE_integer(
        "preempted_exit_code",
        Preempted.exit_code,
        "The exit code of a run that was told to stop, and was saved.",
        lower_bound=0,
        upper_bound=255,
    )
    flags.DEFINE_list("profile_steps", None, "FIRST,LAST: profile these updates for TensorBoard.")


def parse(arguments):
    """Parses sys.argv.

    Raises:
      ValueError: a flag or a field of the config is unknown or mistyped; the nearest is told.
    """
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        raise InputError(f"{error}\nSee: python -m tfbigbatch.train --help") from None
    # The experiment file was executed: it may raise anything.
    except Exception as error:
        raise _config_error(arguments) or error from None


def _config_error(arguments):
    """The error for the first --config.FIELD that the experiment file does not have; or for the file itself."""
    path = None
    for argument, following in zip(arguments, [*arguments[1:], None]):
        name, given, value = argument.partition("=")
        if name in ("--config", "-config"):
            path = value if given else following
    if path is None:
        return None
    try:
        config = experiment.load(path.partition(":")[0])
    except InputError as error:
        return error
    for argument in arguments:
        name = argument.lstrip("-").partition("=")[0]
        if name.startswith("config."):
            unknown = experiment.unknown_field(config, name[len("config.") :])
            if unknown:
                return unknown
    return None


def profile_window(options):
    """(first, last) of --profile_steps, or None.

    Raises:
      ValueError: it is something else.
    """
    text = options.profile_steps
    if text is None:
        return None
    window = command.numbers("profile_steps", text, int)
    if len(window) != 2 or not 0 <= window[0] < window[1]:
        raise InputError(f"--profile_steps={','.join(text)}: expected FIRST,LAST with 0 <= FIRST < LAST, as 10,20.")
    return tuple(window)


def config(options):
    """The experiment's config, with what other flags override in it.

    Raises:
      ValueError: there is none.
    """
    if options["config"].value is None:
        raise InputError("--config is missing: give an experiment file, such as experiments/digits/lstm_legw.py.")
    found = options.config
    if not isinstance(found, ml_collections.ConfigDict):
        raise _config_error(sys.argv) or InputError(f"--config={options['config'].value}: not an experiment file.")
    if options.seed is not None:
        found.seed = options.seed
    if options.mixed_precision is not None:
        found.mixed_precision = options.mixed_precision
    return found


def stall_timeout(options):
    """The limit to all waits, in seconds; 0 for none."""
    if options.stall_timeout is not None:
        return options.stall_timeout
    return _STALL_TIMEOUT if os.environ.get("TF_CONFIG") else 0.0
