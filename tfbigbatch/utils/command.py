"""Command-line entry point: parses flags, turns errors into one message and an exit code."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from logging import getLogger
from typing import NoReturn

from absl import app, flags, logging

from tfbigbatch.errors import DivergedError, InputError, Preempted, WorkerLost
from tfbigbatch.utils.home import expanded_texts

# TensorFlow's warnings on what is no mistake: evaluations and the last steps have shapes of their own.
_EXPECTED = ("triggered tf.function retracing", "Your input ran out of data")

# TensorFlow reads its level at its import: its errors alone, and without an NVIDIA driver, whose absence it reports as
# an error in every run, none.
if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3") != "0":
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
    getLogger("tensorflow").addFilter(lambda record: not any(words in record.getMessage() for words in _EXPECTED))


def execute(main: Callable[[list[str]], int | None], takes_arguments: bool = False) -> NoReturn:
    """Parses the flags, runs `main` and exits the process.

    InputError and DivergedError are printed as one message, with exit code 1. Preempted exits with its own code, 42
    unless a flag sets another, and WorkerLost with 75. Any other exception is a bug and keeps its traceback.

    Args:
      main: function of the arguments that are not flags; returns the exit code, None meaning 0.
      takes_arguments: True if `main` takes arguments that are not flags.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr does: a name or an id that UTF-8 cannot hold would end the command where it is printed.
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.set_verbosity(logging.WARNING)
    logging.use_absl_handler()
    app.define_help_flags()
    try:
        rest = parse(sys.argv)
        if len(rest) > 1 and not takes_arguments:
            example = f"--config={rest[1]}" if "config" in flags.FLAGS else "--model_dir=DIR"
            raise InputError(f"{rest[1]!r} is not a flag; flags begin with --, such as {example}.")
        _check_folders()
        _expand_home()
        code = main(rest[1:] if "--" in sys.argv else expanded_texts(rest[1:])) or 0
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


def _expand_home() -> None:
    """Puts the home folder in place of a `~` at the beginning of a flag's value; fields of a config keep theirs."""
    for name in flags.FLAGS:
        value = flags.FLAGS[name].value
        if not name.endswith(".FIELD") and value != expanded_texts(value):
            flags.FLAGS[name].value = expanded_texts(value)


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


# --config.batch_size=32 is given to the flag `config.FIELD`, as batch_size=32.
_FIELD = re.compile(r"--?(config|grid)\.([^=]+=.*)", re.DOTALL)


def parse(arguments: list[str]) -> list[str]:
    """Parses the command line by absl, --config.FIELD=VALUE too; gives the program and what is no flag.

    Raises:
      ValueError: a flag is unknown or mistyped.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [_FIELD.sub(r"--\1.FIELD=\2", each) for each in arguments[:end]]
    try:
        return flags.FLAGS([*own, *arguments[end:]])
    except flags.Error as error:
        program = arguments[0] if " " in arguments[0] else f"python {arguments[0]}"
        raise InputError(f"{error}\nSee: {program} --help") from None
