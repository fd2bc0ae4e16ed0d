"""The grid of a study's command line: --sweep.FIELD=VALUES, --learning_rates, --warmup_epochs and --seeds."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Sequence

from absl import flags

from tfbigbatch import experiment
from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError
from tfbigbatch.studies.entry import Entry
from tfbigbatch.utils import command

# The flags with names of their own: how a trial's name begins, the field, and the kind of its values.
_OWN = {
    "learning_rates": ("rate", "schedule.learning_rate"),
    "warmup_epochs": ("warmup", "schedule.warmup_epochs"),
}


def entries(path: str, name: str, options: flags.FlagValues) -> list[Entry]:
    """An entry for each point of the grid, named by the swept fields and their values as given.

    Args:
      path: of the experiment.
      name: of the experiment, before those of the fields; "" for none.
      options: the parsed flags of `study`.

    Raises:
      ValueError: the experiment, a field or a value cannot be used.
    """
    base = experiment_flags.load(path, options)
    grid, seeds = _grid(options)
    if options.learning_rates and not options.warmup_epochs:
        # As the trials of earlier versions are named.
        grid.insert(1, ("warmup", "schedule.warmup_epochs", [str(base.schedule.warmup_epochs)]))
    found = []
    for values in itertools.product(*(texts for _, _, texts in grid)):
        config = copy.deepcopy(base)
        said = experiment.override(config, [f"{field}={value}" for (_, field, _), value in zip(grid, values)])
        shown = [f"{title}-{value}" if title else f"{field}={value}" for (title, field, _), value in zip(grid, values)]
        label = " ".join([*([name] if name else []), *_joined(shown)])
        for line in said:
            print(f"{label}: {line}", flush=True)
        found.append(Entry(label, config, seeds, _folder(label)))
    return found


def _joined(shown: Sequence[str]) -> list[str]:
    """The parts of a label: those of --learning_rates and --warmup_epochs in one word, as in earlier versions."""
    own = [part for part in shown if "=" not in part]
    return [*(["-".join(own)] if own else []), *(part for part in shown if "=" in part)]


def _grid(options: flags.FlagValues) -> tuple[list[tuple[str, str, list[str]]], tuple[int, ...]]:
    """The swept fields, each with the title of its own flag or "", and the texts of its values; and the seeds."""
    grid = []
    for flag, (title, field) in _OWN.items():
        if options[flag].value:
            command.numbers(flag, options[flag].value, float)
            grid.append((title, field, options[flag].value))
    seeds = options.seeds
    for text in options.sweep:
        field, given, values = text.partition("=")
        texts = [value.strip() for value in values.split(";" if ";" in values else ",")]
        if not given or not field or "" in texts:
            raise InputError(
                f"--sweep.{text}: expected --sweep.FIELD=VALUE,VALUE,..., as --sweep.optimizer.weight_decay=0.01,0.1."
            )
        if field == "seed":
            if seeds is not None:
                raise InputError(f"--sweep.{text} and --seeds={','.join(seeds)}: give one of the two.")
            seeds = texts
            continue
        if field in (known for _, known, _ in grid):
            raise InputError(f"--sweep.{text}: {field} is swept twice.")
        twice = [value for value in texts if texts.count(value) > 1]
        if twice:
            raise InputError(f"--sweep.{text}: {twice[0]} is there twice.")
        grid.append(("", field, texts))
    found = tuple(command.numbers("seeds", seeds or ["0"], int))
    if len(set(found)) < len(found):
        raise InputError(f"--seeds={','.join(map(str, found))}: a seed is there twice.")
    return grid, found


def _folder(label: str) -> str:
    """A label as the name of a folder, without characters that a shell interprets."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", label)
