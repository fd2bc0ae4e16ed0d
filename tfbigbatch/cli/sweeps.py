"""The grid of a study's command line: --sweep.FIELD=VALUES and --seeds."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator

import ml_collections
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.cli import experiment_flags
from tfbigbatch.errors import InputError
from tfbigbatch.utils import command


def configs(path: str, options: flags.FlagValues) -> Iterator[tuple[str, ml_collections.ConfigDict]]:
    """The config of each point of the grid, with a name of the swept fields and their values as given; "" without any.

    Args:
      path: of the experiment.
      options: the parsed flags of `study`.

    Raises:
      ValueError: the experiment, a field or a value cannot be used.
    """
    base = experiment_flags.load(path, options)
    grid = _grid(options)
    for values in itertools.product(*grid.values()):
        config = copy.deepcopy(base)
        point = [f"{field}={value}" for field, value in zip(grid, values)]
        for line in experiment.override(config, point):
            print(f"{' '.join(point)}: {line}", flush=True)
        yield " ".join(point), config


def _grid(options: flags.FlagValues) -> dict[str, list[str]]:
    """The texts of the values of each swept field."""
    given = list(options["sweep.FIELD"].value)
    if options.learning_rates:
        command.numbers("learning_rates", options.learning_rates, float)
        given.insert(0, f"schedule.learning_rate={','.join(options.learning_rates)}")
    grid: dict[str, list[str]] = {}
    for text in given:
        field, _, values = text.partition("=")
        texts = [value.strip() for value in values.split(";" if ";" in values else ",")]
        if not field or "" in texts:
            raise InputError(
                f"--sweep.{text}: expected --sweep.FIELD=VALUE,VALUE,..., as --sweep.optimizer.weight_decay=0.01,0.1."
            )
        if field == "seed":
            raise InputError(f"--sweep.{text}: give --seeds={','.join(texts)}.")
        if field in grid or len(set(texts)) < len(texts):
            raise InputError(f"--sweep.{text}: a field or a value is there twice.")
        grid[field] = texts
    return grid


def seeds(options: flags.FlagValues) -> tuple[int, ...]:
    """The whole numbers of --seeds; 0 without it."""
    return tuple(command.numbers("seeds", options.seeds or ["0"], int))
