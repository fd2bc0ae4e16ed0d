"""The commands that prepare datasets."""

from __future__ import annotations

import dataclasses
from typing import Any

from absl import flags

from tfbigbatch.utils.processes import cores

_DEFINE = {
    "bool": flags.DEFINE_bool,
    "float": flags.DEFINE_float,
    "int": flags.DEFINE_integer,
    "str": flags.DEFINE_string,
}


def define_flags(options: type) -> None:
    """Defines --output_dir and --processes, and a flag for each `preparation.option` of a dataclass of options."""
    flags.DEFINE_string("output_dir", None, "Folder for the prepared dataset; the trainer's --data_dir.", required=True)
    for field in dataclasses.fields(options):
        if "help" in field.metadata:
            define = _DEFINE[str(field.type).removesuffix(" | None")]
            define(field.name, field.default, field.metadata["help"])
    flags.DEFINE_integer("processes", None, "Number of processes. Default: one per core.", lower_bound=1)


def given(options: type) -> Any:
    """The options that the flags of `define_flags` give.

    Raises:
      ValueError: one is out of range.
    """
    values = {field.name: flags.FLAGS[field.name].value for field in dataclasses.fields(options)}
    values["processes"] = values["processes"] or cores()
    return options(**values)


def say(line: str) -> None:
    """Prints a line at once."""
    print(line, flush=True)
