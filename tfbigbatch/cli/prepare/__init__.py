"""The commands that prepare datasets."""

from __future__ import annotations

import dataclasses
from typing import Any

from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils.processes import cores

_DEFINE = {
    "bool": flags.DEFINE_bool,
    "float": flags.DEFINE_float,
    "int": flags.DEFINE_integer,
    "str": flags.DEFINE_string,
}


def define_flags(options: type) -> None:
    """Defines --output_dir, --processes and --overwrite, and a flag for each field of a dataclass of options.

    Args:
      options: its fields are those of `preparation.option`, and perhaps `shards`.
    """
    flags.DEFINE_string("output_dir", None, "Folder for the prepared dataset; the trainer's --data_dir.", required=True)
    for field in dataclasses.fields(options):
        if "help" in field.metadata:
            define = _DEFINE[str(field.type).removesuffix(" | None")]
            define(field.name, field.default, field.metadata["help"])
        elif field.name == "shards":
            flags.DEFINE_list("shards", [], "Number of shards, as train:256,validation:8. Default: by their size.")
    flags.DEFINE_integer("processes", None, "Number of processes. Default: one per core.", lower_bound=1)
    flags.DEFINE_bool(
        "overwrite",
        False,
        "Replace a dataset that was prepared in --output_dir from another source or with other options.",
    )


def given(options: type) -> Any:
    """The options that the flags of `define_flags` give.

    Raises:
      ValueError: one is out of range.
    """
    values = {field.name: flags.FLAGS[field.name].value for field in dataclasses.fields(options)}
    values["processes"] = values["processes"] or cores()
    if "shards" in values:
        pairs = [entry.partition(":") for entry in values["shards"]]
        if not all(split in ("train", "validation") and count.isdigit() and int(count) for split, _, count in pairs):
            raise InputError(f"--shards={','.join(values['shards'])}: expected such as train:1024,validation:128.")
        values["shards"] = {split: int(count) for split, _, count in pairs}
    return options(**values)


def say(line: str) -> None:
    """Prints a line at once."""
    print(line, flush=True)
