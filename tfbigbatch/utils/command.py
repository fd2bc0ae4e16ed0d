"""Command-line entry point: parses flags, turns errors into one message and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags, logging

from tfbigbatch.errors import DivergedError, InputError, Preempted, WorkerLost

# Set here because commands import this module before TensorFlow, which logs a lot at its import. Errors still show,
# except without an NVIDIA driver: TensorFlow reports its absence as an error, in every run.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3")


def execute(
    main: Callable[[list[str]], int | None],
    parse: Callable[[list[str]], list[str]] | None = None,
    takes_arguments: bool = False,
) -> NoReturn:
    """Parses the flags, runs `main` and exits the process.

    InputError and DivergedError are printed as one message, with exit code 1. Preempted exits with its own code, 42
    unless a flag sets another, and WorkerLost with 75. Any other exception is a bug and keeps its traceback.

    Args:
      main: function of the arguments that are not flags; returns the exit code, None meaning 0.
      parse: function of sys.argv that parses the flags and returns the rest; None for absl's.
      takes_arguments: whether `main` takes arguments that are not flags.
    """
    logging.set_verbosity(logging.WARNING)
    logging.use_absl_handler()
    app.define_help_flags()
    try:
        rest = (parse or _parse)(sys.argv)
        if len(rest) > 1 and not takes_arguments:
            raise InputError(f"{rest[1]!r} is not a flag; flags begin with --, such as --model_dir=DIR.")
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


def _exit_from_a_cluster(code: int) -> NoReturn:
    """Ends the process at once: at the interpreter's exit TensorFlow would wait for the other workers, or abort."""
    sys.stderr.flush()
    os._exit(code)


def _check_folders() -> None:
    """Refuses URLs such as gs://bucket as folders: they would make folders gs: and bucket on the local disk.

    Raises:
      ValueError: a flag NAME_dir is a URL.
    """
    for name, value in flags.FLAGS.flag_values_dict().items():
        if name.endswith("_dir") and isinstance(value, str) and "://" in value:
            raise InputError(
                f"--{name}={value} is a URL; expected a folder. Mount the bucket and pass the folder; see docs/tpu.md."
            )


def numbers(flag: str, texts: Sequence[str], kind: type) -> list:
    """Parses the entries of a list flag as int or float, by `kind`.

    Raises:
      ValueError: an entry is not a number.
    """
    try:
        return [kind(text) for text in texts]
    except ValueError:
        words = {int: "whole numbers, such as 0,1,2", float: "numbers, such as 0.1,0.2"}[kind]
        raise InputError(f"--{flag}={','.join(texts)}: expected {words}.") from None


def _parse(arguments: list[str]) -> list[str]:
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        program = arguments[0] if " " in arguments[0] else f"python {arguments[0]}"
        missing = re.search(r"Flag (--\w+) must have a value", str(error))
        message = f"{missing[1]} is missing." if missing else error
        raise InputError(f"{message}\nSee: {program} --help") from None
