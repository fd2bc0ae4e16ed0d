"""Tasks by name: those of this package, and the users' own."""

from __future__ import annotations

import importlib
from typing import Any

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.tasks.base import Task

# Imported when asked for: a task's data or model may need an optional package.
_BUILT_IN = {
    "bert_glue": "bert_finetuning.BertGlue",
    "bert_pretraining": "bert.BertPretraining",
    "bert_race": "bert_finetuning.BertRace",
    "bert_squad": "bert_finetuning.BertSquad",
    "digits_lstm": "image_classification.DigitsLSTM",
    "gnmt": "gnmt.Gnmt",
    "image_classification": "image_classification.ImageClassification",
    "lstm_language_model": "language_model.LSTMLanguageModel",
    "mnist_cnn": "image_classification.MnistCNN",
    "mnist_lenet": "image_classification.MnistLeNet",
    "mnist_lstm": "image_classification.MnistLSTM",
}
# The users' own, by name.
_registered: dict[str, type[Task]] = {}


def names() -> list[str]:
    """The registered names, sorted."""
    return sorted([*_BUILT_IN, *_registered])


def registered() -> list[str]:
    """The names of the users' own tasks in this process, sorted."""
    return sorted(_registered)


def register(name: str, cls: type[Task]) -> None:
    """Makes a task of your own known by a name, to experiments and to every command that reads a run.

    An experiment or sweep file calls this outside of its functions, so that each process that executes the file knows
    the task. Registering a name again replaces the task.

    Args:
      name: the name, in lower case; the config's `task`.
      cls: the class, a subclass of `Task`.

    Raises:
      ValueError: the name is one of this package's own or not in lower case; or `cls` is not a subclass of `Task`, or
        names no held-out split.
    """
    if not isinstance(name, str) or not name or name != name.lower() or name in _BUILT_IN:
        raise InputError(
            f"tasks.register: name={name!r}; expected a name in lower case, as 'my_task', and none of tfbigbatch's own."
        )
    if not isinstance(cls, type) or not issubclass(cls, Task):
        raise InputError(f"tasks.register: {name!r} is {cls!r}; expected a subclass of tfbigbatch.tasks.Task.")
    for attribute in ("evaluates_on", "models"):
        if isinstance(getattr(cls, attribute), str):
            raise InputError(f"tasks.register: {cls.__name__}.{attribute} is a text; expected a tuple of names.")
    if not cls.evaluates_on:
        raise InputError(f"tasks.register: {cls.__name__}.evaluates_on names no held-out split.")
    _registered[name] = cls


def get(name: str) -> type[Task]:
    """The class of the task registered under `name`; raises ValueError for an unknown name."""
    if name in _registered:
        return _registered[name]
    if name not in _BUILT_IN:
        raise InputError(
            f"task {name!r} is unknown. {nearest(name, names())} If it is your own, name the experiment file that "
            "registers it: --register=FILE, or execute(FILE)."
        )
    module, _, cls = _BUILT_IN[name].rpartition(".")
    found: type[Task] = getattr(importlib.import_module(f"tfbigbatch.tasks.{module}"), cls)
    return found


def model_defaults(name: str, model: str | None = None) -> dict[str, Any]:
    """The fields of a task's model that an experiment may set, with their defaults.

    Args:
      name: of the task.
      model: name of the model, where the task has several, and only there.

    Raises:
      ValueError: the task or the model is unknown, or no model is named where there are several.
    """
    task = get(name)
    if not task.models:
        if model is not None:
            raise InputError(f"task {name} has one model; leave model={model!r} out.")
        return dict(task.model_defaults)
    if model is None:
        raise InputError(f"task {name} has several models. Name one: model='...', of {', '.join(task.models)}.")
    return task.model_defaults_of(model)
