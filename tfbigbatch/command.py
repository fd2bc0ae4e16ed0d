"""What every command shares: flags in, one clear message and an exit code out."""

import os
import sys

from absl import app, flags, logging

from tfbigbatch.errors import DivergedError, InputError, Preempted


def execute(main, parse=None):
    """Parses the flags, runs `main` and exits the process.

    An InputError or DivergedError is printed as one message, with exit code 1; Preempted exits with
    code 42; anything else is a defect of ours and keeps its traceback.

    Args:
      main: function of the arguments that are not flags; returns the exit code, None as 0.
      parse: function of sys.argv that parses the flags; None for the usual one.
    """
    # Before TensorFlow is imported: its chatter at start-up would bury our own lines. Errors still show,
    # but where there is no NVIDIA driver: there it reports just that as an error, in every run.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3")
    logging.set_verbosity(logging.WARNING)
    logging.use_absl_handler()
    app.define_help_flags()
    try:
        rest = (parse or _parse)(sys.argv)
        if len(rest) > 1:
            raise InputError(f"{rest[1]!r} is not a flag; flags begin with --, as --model_dir=DIR.")
        code = main(rest[1:]) or 0
    except (InputError, DivergedError) as error:
        sys.stdout.flush()
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except Preempted as stopped:
        print(stopped, flush=True)
        code = Preempted.exit_code
    sys.exit(code)


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


def _parse(arguments):
    try:
        return flags.FLAGS(arguments)
    except flags.Error as error:
        raise InputError(f"{error}\nSee: python {arguments[0]} --help") from None
