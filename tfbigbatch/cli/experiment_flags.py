"""The flags by which a command takes an experiment: --config, --config.FIELD=VALUE for its fields, and --quick."""

from __future__ import annotations

from collections.abc import Callable

import ml_collections
from absl import flags

from tfbigbatch.config import load_config, make_quick, override
from tfbigbatch.errors import InputError


def define_override() -> None:
    """Defines the flag that takes each --config.FIELD=VALUE; see `utils.command.parse`."""
    flags.DEFINE_multi_string("config.FIELD", [], "Overrides a field of the experiment: --config.batch_size=1024.")


def define_quick() -> None:
    """Defines the flag --quick, which `load` follows."""
    flags.DEFINE_bool(
        "quick",
        False,
        "Try it small: with --data_dir in minutes on the data, without in seconds on made-up data, with a tiny model.",
    )


def overrides(options: flags.FlagValues) -> list[str]:
    """The texts FIELD=VALUE of all overrides."""
    return list(options["config.FIELD"].value)


def load(
    name: str | None, options: flags.FlagValues, say: Callable[[str], object] = print
) -> ml_collections.ConfigDict:
    """The config of an experiment with its overrides, and made small where --quick asks for it; says what changed.

    Args:
      name: the value of --config.
      options: with the flag of `define_override`, and perhaps that of `define_quick`.
      say: takes the lines.

    Raises:
      ValueError: --config is missing, or the file or a field cannot be used.
    """
    if not name:
        raise InputError(
            "--config is missing: give an experiment file, such as experiments/digits/lstm_legw.py, or the name of one "
            "that the package ships, such as digits/lstm_legw."
        )
    config, given = load_config(name), overrides(options)
    said = override(config, given)
    if "quick" in options and options.quick:
        said += make_quick(config, data_dir=options.data_dir, keep=[text.partition("=")[0] for text in given])
    for line in said:
        say(line)
    return config
