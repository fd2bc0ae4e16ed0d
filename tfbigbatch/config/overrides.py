"""Fields of a config: set by text as on a command line, --config.FIELD=VALUE, and compared."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from tfbigbatch import tasks
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import aliases, registry
from tfbigbatch.optimizers.declared import Group

# They decide which other fields there are, so they are set before these.
_FIRST = ("optimizer.name", "model.name")
_FIXED = ("task", "experiment")


def override(config: ConfigDict, assignments: Sequence[str]) -> list[str]:
    """Sets fields of `config` from texts 'field=value', with a dot before an inner field; types are kept.

    A tuple is written as 1,1,2 or as "'1 epochs','2 epochs'". 'optimizer.name' and 'model.name' come first: the new
    optimizer keeps the fields that it takes, the new model has the defaults of all fields. 'optimizer.FIELD' is any
    argument of the optimizer's constructor, 'optimizer.root.every' a field of one that is a dictionary. 'batch_size' is
    that of the run: the recipe stays tuned at `schedule.batch_size`.

    Returns:
      Lines that say what was left out for a new optimizer.

    Raises:
      ValueError: a text has another form, there is no such field, or the value has another type.
    """
    hold_tuned_batch(config)
    said: list[str] = []
    given = [(name.strip(), equals, text) for name, equals, text in (each.partition("=") for each in assignments)]
    for name, equals, text in sorted(given, key=lambda each: each[0] not in _FIRST):
        if not equals:
            raise InputError(f"--config.{name}: expected --config.FIELD=VALUE, as --config.batch_size=1024.")
        if name in _FIXED:
            raise InputError(f"--config.{name}: it comes with the experiment file; choose another one with --config.")
        if name == "optimizer.name":
            said += _choose_optimizer(config, text)
        elif name == "model.name" and "name" in config.model:
            if text != config.model.name:
                config.model = tasks.model_defaults(config.task, text)
        elif name.startswith("optimizer."):
            _set_of_optimizer(config, name.removeprefix("optimizer."), text)
        else:
            _set(config, name, text)
    return said


def hold_tuned_batch(config: ConfigDict) -> None:
    """Ends that `schedule.batch_size` follows `batch_size`: a later batch is one that the recipe is scaled to.

    A recipe is tuned at the batch size of its file, unless the file says otherwise; see `fields.new_config`.
    """
    config.schedule.batch_size = int(config.schedule.batch_size)


def holder_of(config: ConfigDict, path: str) -> tuple[ConfigDict, str]:
    """The group of fields that holds the field of a dotted `path`, and the field's own name.

    Raises:
      ValueError: `config` has no such field; the message has the nearest that it has.
    """
    here, names = config, path.split(".")
    for depth, name in enumerate(names):
        if not isinstance(here, ConfigDict) or name not in here:
            known = list(here.keys()) if isinstance(here, ConfigDict) else []
            inside = f" in {'.'.join(names[:depth])}" if depth else ""
            raise InputError(f"--config.{path}: there is no field {name!r}{inside}. {nearest(name, known)}")
        holder, here = here, here[name]
    return holder, names[-1]


def set_fields(config: ConfigDict, fields: Mapping[str, Any]) -> ConfigDict:
    """Sets fields of `config` by their dotted names, and returns it.

    Raises:
      ValueError: `config` has no such field.
    """
    for path, value in fields.items():
        holder, name = holder_of(config, path)
        holder[name] = value
    return config


def compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """A plain nested config for comparisons: without the file that it is from."""
    return {name: value for name, value in config.items() if name != "experiment"}


def differences(config: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Lines 'field: a -> b' for each field that differs between two plain nested configs."""
    one, two = flat(compared(config)), flat(compared(other))
    pairs = {name: (one.get(name, "(absent)"), two.get(name, "(absent)")) for name in sorted({*one, *two})}
    return [f"{name}: {old} -> {new}" for name, (old, new) in pairs.items() if old != new]


def flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A plain nested dictionary as one of dotted names to values."""
    found = {}
    for name, value in nested.items():
        found.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return found


def _set(config: ConfigDict, name: str, text: str) -> None:
    holder, last = holder_of(config, name)
    if isinstance(holder[last], ConfigDict):
        raise InputError(
            f"--config.{name}={text}: {name} is a group of fields; set one, as --config.{name}.FIELD=VALUE."
        )
    values, before = flags.FlagValues(), holder[last]
    command = ["", f"--config.{name}={text}"]
    try:
        config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=command)
        values(command)
        if isinstance(before, tuple) and before and _is_text(holder[last]) > _is_text(before):
            raise TypeError("a text among numbers")
    except (flags.Error, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        kind = type(before).__name__
        raise InputError(f"--config.{name}={text}: expected a value of type {kind}, as {before!r} is.") from None


def _is_text(values: Sequence[Any]) -> bool:
    return any(isinstance(value, str) for value in values)


def _literal(text: str) -> Any:
    """The value of Python that a text says, true, false and none in any case; else the text."""
    known = {"none": None, "null": None, "true": True, "false": False}
    if text.strip().lower() in known:
        return known[text.strip().lower()]
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _choose_optimizer(config: ConfigDict, text: str) -> list[str]:
    """Sets the optimizer's name; the fields that it takes stay, and a line says which do not."""
    name = text.strip().lower()
    if name not in registry.names():
        raise InputError(f"--config.optimizer.name={text} is unknown. {nearest(text, registry.names())}")
    before, known = config.optimizer.to_dict(), {"name", *registry.fields(name)}
    config.optimizer = {**{field: value for field, value in before.items() if field in known}, "name": name}
    if before.get("name") == name:
        return []
    dropped = [f"{field}={value}" for field, value in before.items() if field not in known]
    words = f"without {', '.join(dropped)}, which it does not take; " if dropped else ""
    rate = f"schedule.learning_rate={config.schedule.learning_rate:g} is still that of {before.get('name')}"
    return [f"optimizer  {name}: {words}{rate}"]


def _set_of_optimizer(config: ConfigDict, field: str, text: str) -> None:
    """Sets an argument of the optimizer's constructor, whether or not the experiment has it."""
    optimizer, value = str(config.optimizer.get("name")), _literal(text)
    known = registry.fields(optimizer)
    at = f"--config.optimizer.{field}"
    group, _, inner = field.partition(".")
    if inner and isinstance(known.get(group), Group):
        before = config.optimizer.to_dict().get(group, {})
        before = {known[group].word: before} if isinstance(before, str) else before
        field, value = group, {**before, inner: value}
    if field in ("learning_rate", "lr"):
        raise InputError(f"{at}: the learning rate is the schedule's, --config.schedule.learning_rate={text}.")
    if field not in known:
        known.pop("learning_rate", None)
        raise aliases.unknown(f"{at}: optimizer {optimizer!r}", field, value, known)
    if isinstance(value, dict) and isinstance(known[field], tuple):
        # The names in a config's own dictionaries have no dots.
        value = tuple(value.items())
    registry.check_fields(optimizer, {field: value})
    with config.optimizer.unlocked(), config.optimizer.ignore_type():
        config.optimizer[field] = value
