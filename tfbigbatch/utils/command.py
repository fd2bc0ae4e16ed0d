"""What every command shares: flags in, one clear message and an exit code out."""

import os
import sys

from absl import app, flags, logging

from tfbigbatch.errors import DivergedError, InputError, Preempted, WorkerLost

# Here, so that a command that imports this module before TensorFlow has it set: TensorFlow's chatter at its
# import would bury our own lines. Errors still show, but where there is no NVIDIA driver: there it reports
# just that as an error, in every run.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3")

# The flags that `series_flags` defines then count as those of the command that calls it, as its --help shows.
flags.disclaim_key_flags()


def execute(main, parse=None, takes_arguments=False):
    """Parses the flags, runs `main` and exits the process.

    An InputError or DivergedError is printed as one message, with exit code 1; Preempted exits with
    its own, 42 unless a flag says otherwise, WorkerLost with 75; anything else is a defect of ours and keeps its
    traceback.

    Args:
      main: function of the arguments that are not flags; returns the exit code, None as 0.
      parse: function of sys.argv that parses the flags; None for the usual one.
      takes_arguments: whether `main` takes arguments that are not flags.
    """
    logging.set_verbosity(logging.WARNING)
    logging.use_absl_handler()
    app.define_help_flags()
    try:
        rest = (parse or _parse)(sys.argv)
        if len(rest) > 1 and not takes_arguments:
            raise InputError(f"{rest[1]!r} is not a flag; flags begin with --, as --model_dir=DIR.")
        _check_folders()
        code = main(rest[1:]) or 0
    except (InputError, DivergedError) as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except WorkerLost as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr, flush=True)
        _exit_from_a_cluster(WorkerLost.exit_code)
    except Preempted as stopped:
        print(stopped, flush=True)
        if os.environ.get("TF_CONFIG"):
            _exit_from_a_cluster(stopped.exit_code)
        code = stopped.exit_code
    sys.exit(code)


def _exit_from_a_cluster(code):
    """Ends the process at once: at the interpreter's end TensorFlow waits for the other workers, or aborts."""
    sys.stderr.flush()
    os._exit(code)


def _check_folders():
    """Raises ValueError where a flag for a folder names a place that is none, such as gs://bucket.

    Not seen, the name would make folders gs: and bucket on this machine's disk.
    """
    for name, value in flags.FLAGS.flag_values_dict().items():
        if name.endswith("_dir") and isinstance(value, str) and "://" in value:
            raise InputError(
                f"--{name}={value} is the address of a store; expected a folder. Mount the store and give the folder; "
                "of Google Cloud's buckets see docs/tpu.md."
            )


def series_flags():
    """Defines the flags of the commands that run several experiments."""
    flags.DEFINE_string("model_dir", None, "Where the run directories go, and the results beside them.", required=True)
    flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
    flags.DEFINE_integer(
        "processes",
        1,
        "Runs at once, each in a process with its share of the cores; its output goes to a .log beside its run "
        "directory. 1: in this process, one after the other.",
        lower_bound=1,
    )
    flags.DEFINE_string("results", None, "Also write the results to this path; the command adds the endings.")
    flags.DEFINE_string(
        "ended_runs",
        None,
        "A file that keeps the runs that have ended. Where their run directories are gone, or on another machine, "
        "the same command takes them from it and does not run them again.",
    )


def numbers(flag, texts, kind):
    """The entries of a list flag as numbers of `kind`, int or float.

    Raises:
      ValueError: an entry is not one.
    """
    try:
        return [kind(text) for text in texts]
    except ValueError:
        words = {int: "whole numbers, as 0,1,2", float: "numbers, as 0.1,0.2"}[kind]
        raise InputError(f"--{flag}={','.join(texts)}: expected {words}.") from None


def cores():
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def shards(entries):
    """The entries of the list flag --shards as a dictionary: {'train': 1024} of ['train:1024'].

    Raises:
      ValueError: an entry is not of a split and a number.
    """
    found = {}
    for entry in entries:
        split, _, number = entry.partition(":")
        if split not in ("train", "validation") or not number.isdigit() or int(number) < 1:
            raise InputError(f"--shards={','.join(entries)}: expected such as train:1024,validation:128.")
        found[split] = int(number)
    return found


def _parse(arguments):
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        raise InputError(f"{error}\nSee: python {arguments[0]} --help") from None
