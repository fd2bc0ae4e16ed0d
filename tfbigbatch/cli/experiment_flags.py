"""The flags by which a command takes an experiment: --config, and --config.FIELD=VALUE for its fields."""

from __future__ import annotations

import re

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


def overrides(options: flags.FlagValues) -> list[str]:
    """The texts FIELD=VALUE of all overrides."""
    found: list[str] = []
    for text in options.override:
        found += [text.removeprefix("config.")] if text.startswith("config.") else _COMMA.split(text)
    return found


def load(name: str, options: flags.FlagValues) -> ml_collections.ConfigDict:
    """The config of an experiment with its overrides; prints what these leave out.

    Args:
      name: the value of --config.
      options: with the flag of `define_override`.

    Raises:
      ValueError: the file or a field cannot be used.
    """
    config = experiment.load(name)
    for line in experiment.override(config, overrides(options)):
        print(line, flush=True)
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
