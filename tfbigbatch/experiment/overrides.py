"""Overrides of a config's fields by text, as on a command line: --config.FIELD=VALUE."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.experiment.changes import hold_tuned_batch, unknown_field
from tfbigbatch.experiment.values import literal, parse
from tfbigbatch.optimizers import arguments as argument_tables
from tfbigbatch.optimizers import registry

# They decide which other fields there are, so they are set before these.
_FIRST = ("optimizer.name", "model.name")
_FIXED = ("task", "experiment")
_PHASE = re.compile(r"phases\[(-?\d+)\]\.(.+)")


def override(config: ml_collections.ConfigDict, assignments: Sequence[str]) -> list[str]:
    """Sets fields of `config` from texts 'field=value', with a dot before an inner field; types are kept.

    'optimizer.name' and 'model.name' come first, wherever they are given: the new optimizer keeps the fields that it
    takes, the new model the fields that the experiment had set. 'optimizer.FIELD' is any argument of the optimizer's
    constructor. 'batch_size' is that of the run: the recipe stays tuned at `schedule.batch_size`. 'phases[0].FIELD' is
    a field of a phase, counted from 0 as in Python.

    Returns:
      Lines that say what was left out for a new optimizer or model.

    Raises:
      ValueError: a text has another form, there is no such field, or the value has another type.
    """
    hold_tuned_batch(config)
    said: list[str] = []
    given = [_split(assignment) for assignment in assignments]
    for name, text in sorted(given, key=lambda pair: pair[0] not in _FIRST):
        phase = _PHASE.fullmatch(name)
        if name in _FIXED:
            raise InputError(f"--config.{name}: it comes with the experiment file; choose another one with --config.")
        if name == "optimizer.name":
            said += _choose_optimizer(config, text)
        elif name == "model.name" and "name" in config.model:
            said += _choose_model(config, text)
        elif name.startswith("optimizer."):
            _set_of_optimizer(config, name.removeprefix("optimizer."), text)
        elif phase:
            _set_of_phase(config, int(phase[1]), phase[2], text)
        else:
            _set(config, name, text)
    return said


def _split(assignment: str) -> tuple[str, str]:
    name, given, text = assignment.partition("=")
    name = name.strip().removeprefix("config.")
    if not given:
        raise InputError(f"--config.{name}: expected --config.FIELD=VALUE, as --config.batch_size=1024.")
    return name, text


def _set(config: ml_collections.ConfigDict, name: str, text: str) -> None:
    unknown = unknown_field(config, name)
    if unknown:
        raise unknown
    holder, _, last = name.rpartition(".")
    fields = config[holder] if holder else config
    value = parse(name, text, fields[last])
    try:
        fields[last] = value
    except (TypeError, ValueError) as error:
        raise InputError(f"--config.{name}={text}: {error}") from None


def _choose_optimizer(config: ml_collections.ConfigDict, text: str) -> list[str]:
    """Sets the optimizer's name; the fields that it takes stay."""
    name = text.strip().lower()
    if name not in registry.names():
        raise InputError(f"--config.optimizer.name={text} is unknown. {nearest(text, registry.names())}")
    before = config.optimizer.to_dict()
    known = registry.fields(name)
    kept = {field: value for field, value in before.items() if field in known}
    dropped = [f"{field}={value}" for field, value in before.items() if field not in known and field != "name"]
    config.optimizer = {"name": name, **kept}
    if before.get("name") == name:
        return []
    words = f"without {', '.join(dropped)}, which it does not take; " if dropped else ""
    rate = f"schedule.learning_rate={config.schedule.learning_rate:g} is still that of {before.get('name')}"
    return [f"optimizer  {name}: {words}{rate}"]


def _set_of_optimizer(config: ml_collections.ConfigDict, field: str, text: str) -> None:
    """Sets an argument of the optimizer's constructor, whether or not the experiment has it."""
    optimizer = str(config.optimizer.get("name"))
    known = registry.fields(optimizer)
    known.pop("learning_rate", None)
    field, _, inner = field.partition(".")
    at = f"--config.optimizer.{field}"
    if field in ("learning_rate", "lr"):
        raise InputError(
            f"{at}: the learning rate is the schedule's, --config.schedule.learning_rate={text}. "
            f"Fields of {optimizer!r}: {', '.join(sorted(known))}."
        )
    if field not in known:
        raise argument_tables.unknown(f"{at}: optimizer {optimizer!r}", field, literal(text), known)
    current, given = config.optimizer.get(field, known[field]), literal(text)
    is_group = isinstance(current, ml_collections.ConfigDict)
    if inner:
        if field not in registry.WRAPPERS:
            raise InputError(f"{at}.{inner}: {field} has no inner fields.")
        options = current.to_dict() if is_group else {}
        value: Any = {**options, inner: literal(text)}
    elif isinstance(given, dict) and isinstance(known[field], tuple):
        # The names in a config's own dictionaries have no dots.
        value = tuple(given.items())
    elif current is None or current is inspect.Parameter.empty or is_group or given is None:
        value = given
    else:
        value = parse(f"optimizer.{field}", text, current)
    if not inner:
        registry.check_fields(optimizer, {field: value})
    with config.optimizer.unlocked(), config.optimizer.ignore_type():
        config.optimizer[field] = value


def _choose_model(config: ml_collections.ConfigDict, text: str) -> list[str]:
    """Sets the model's name, and its fields to their defaults, but for those that the experiment had set."""
    before = config.model.to_dict()
    if before["name"] == text:
        return []
    try:
        new = tasks.model_defaults(config.task, text)
        old = tasks.model_defaults(config.task, before["name"])
    except InputError as error:
        raise InputError(f"--config.model.name={text}: {error}") from None
    own = {field: value for field, value in before.items() if field != "name" and value != old.get(field)}
    config.model = {**new, **{field: value for field, value in own.items() if field in new}}
    dropped = [f"{field}={value}" for field, value in own.items() if field not in new]
    return [f"model      {text}: without {', '.join(dropped)}, which it does not have"] if dropped else []


def _set_of_phase(config: ml_collections.ConfigDict, index: int, field: str, text: str) -> None:
    phases = [dict(fields) for fields in config.phases]
    name = f"phases[{index}].{field}"
    if not -len(phases) <= index < len(phases):
        raise InputError(f"--config.{name}: the experiment has {len(phases)} phases; the first is phases[0].")
    unknown = unknown_field(config, field)
    if unknown:
        raise InputError(str(unknown).replace(f"--config.{field}", f"--config.{name}"))
    holder, _, last = field.rpartition(".")
    phases[index][field] = parse(name, text, (config[holder] if holder else config)[last])
    config.phases = tuple(phases)
