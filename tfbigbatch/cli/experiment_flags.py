"""The flags by which a command takes an experiment: --config, and --config.FIELD=VALUE for its fields."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_collections
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError

# Between the assignments of earlier versions' --override=a=1,b=2.
_COMMA = re.compile(r",(?=[A-Za-z_][\w.\[\]]*=)")


def define_override() -> None:
    """The flag behind --config.FIELD=VALUE; see `utils.command.with_fields`."""
    flags.DEFINE_multi_string(
        "override",
        [],
        "--config.FIELD=VALUE overrides a field of the experiment. --override=FIELD=VALUE is its spelling in earlier "
        "versions.",
    )


def define_quick() -> None:
    """The flag --quick, which `load` follows."""
    flags.DEFINE_bool("quick", False, "A first try on the data: batch, schedule and model brought down to minutes.")


def overrides(options: flags.FlagValues) -> list[str]:
    """The texts FIELD=VALUE of all overrides."""
    found: list[str] = []
    for text in options.override:
        found += [text.removeprefix("config.")] if text.startswith("config.") else _COMMA.split(text)
    return found


def load(name: str, options: flags.FlagValues, say: Callable[[str], None] | None = None) -> ml_collections.ConfigDict:
    """The config of an experiment with its overrides; prints what these leave out; a quick run where
    --quick asks for one.

    Args:
      name: the value of --config.
      options: with the flag of `define_override`, and perhaps that of `define_quick`.
      say: takes the lines; None to print them.

    Raises:
      ValueError: the file or a field cannot be used.
    """
    config = experiment.load(name)
    given = overrides(options)
    said = experiment.override(config, given)
    if "quick" in options and options.quick:
        said += experiment.quick(config, data_dir=options.data_dir, keep=[text.partition("=")[0] for text in given])
    for line in said:
        (say or _print)(line)
    return config


def required(options: flags.FlagValues) -> str:
    """The value of --config.

    Raises:
      ValueError: it is missing.
    """
    name: str | None = options.config
    if not name:
        raise InputError(
            "--config is missing: give an experiment file, such as experiments/digits/lstm_legw.py, or the name of one "
            "that the package ships, such as digits/lstm_legw."
        )
    return name


def _print(line: str) -> None:
    print(line, flush=True)
