"""Changes to a study as a whole: another optimizer's rows, another number of trials, fields of all rows, tiny runs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import ml_collections

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.studies.study import Study


def with_optimizer(table: Study, name: str) -> Study:
    """A study with the rows of its `template` under another optimizer, at the front.

    The trials begin at the template's learning rates, and the optimizer keeps those of the template's fields that it
    takes, such as weight decay and clipping.

    Args:
      table: the study.
      name: of a registered optimizer.

    Raises:
      ValueError: the optimizer is unknown or has a row, or the study has no template.
    """
    if table.template is None:
        raise InputError(f"study {table.title!r} names no template, a method that another optimizer can take after.")
    if name in {row.name for row in table.tuned}:
        raise InputError(f"study {table.title!r} has a method {name!r}; register the optimizer under another name.")
    added = []
    for row in table.tuned:
        if row.name == table.template:
            config, trial = (_overridden(each, [f"optimizer.name={name}"]) for each in (row.config, row.trial))
            folder = row.folder.replace(row.folder.split("/")[0], name, 1)
            added.append(dataclasses.replace(row, name=name, config=config, trial=trial, folder=folder))
    found = copy.copy(table)
    found.tuned = [*added, *table.tuned]
    return found


# What the rows of a study differ in.
_OF_ROWS = ("batch_size", "seed", "optimizer.name")


def with_fields(table: Study, assignments: Sequence[str]) -> Study:
    """A study in which all rows and trials have some fields in common; its title names them.

    Args:
      table: the study.
      assignments: texts 'field=value', as `experiment.override` takes.

    Raises:
      ValueError: `experiment.override` refuses one, or the rows of a study differ in that field.
    """
    refused = {*_OF_ROWS, *(("schedule.learning_rate",) if table.tuned else ())}
    for text in assignments:
        name = text.partition("=")[0].strip()
        if name in refused:
            raise InputError(
                f"--config.{name} cannot be set for all rows of study {table.title!r}: it is what they differ in. "
                "Write a study file of your own."
            )

    found = _with_configs(table, lambda config: _overridden(config, assignments))
    found.title = ", ".join([table.title, *assignments])
    return found


def made_quick(table: Study, data_dir: str | None) -> Study:
    """A study in which each row is a quick run (`experiment.quick`) at one seed, with one trial."""

    def small(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
        config = copy.deepcopy(config)
        experiment.quick(config, data_dir=data_dir)
        return config

    found = _with_configs(table, small)
    found.entries = [dataclasses.replace(row, seeds=row.seeds[:1]) for row in found.entries]
    found.tuned = [dataclasses.replace(row, seeds=row.seeds[:1], budget=1) for row in found.tuned]
    return found


def _overridden(config: ml_collections.ConfigDict, assignments: Sequence[str]) -> ml_collections.ConfigDict:
    config = copy.deepcopy(config)
    experiment.override(config, assignments)
    return config


def _with_configs(table: Study, change: Callable[[ml_collections.ConfigDict], Any]) -> Study:
    """The study with the config of each row and trial changed by `change`."""
    found = copy.copy(table)
    found.entries = [dataclasses.replace(row, config=change(row.config)) for row in table.entries]
    found.tuned = [dataclasses.replace(row, config=change(row.config), trial=change(row.trial)) for row in table.tuned]
    return found


def with_budget(table: Study, budget: int, methods: Collection[str] | None = None) -> Study:
    """A study with another number of trials for the tuned rows of some methods; None for all."""
    found = copy.copy(table)
    found.tuned = [
        dataclasses.replace(row, budget=budget) if methods is None or row.name in methods else row
        for row in table.tuned
    ]
    return found
