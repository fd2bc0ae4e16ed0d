"""Tasks by name: model, data, loss, metrics and target."""

from __future__ import annotations

import importlib
from typing import Any

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.tasks.base import Task

# Imported when asked for: a task's data or model may need an optional package.
_BUILT_IN = {
    "bert_glue": "bert_finetuning.glue.BertGlue",
    "bert_pretraining": "bert_pretraining.BertPretraining",
    "bert_race": "bert_finetuning.race.BertRace",
    "bert_squad": "bert_finetuning.squad.BertSquad",
    "digits_lstm": "small_images.DigitsLSTM",
    "gnmt": "gnmt.Gnmt",
    "image_classification": "image_classification.ImageClassification",
    "lstm_language_model": "language_model.LSTMLanguageModel",
    "mnist_lenet": "small_images.MnistLeNet",
    "mnist_lstm": "small_images.MnistLSTM",
}


def names() -> list[str]:
    """The registered names, sorted."""
    return sorted(_BUILT_IN)


def get(name: str) -> type[Task]:
    """The class of the task registered under `name`.

    Raises:
      ValueError: the name is unknown.
    """
    if name not in _BUILT_IN:
        raise InputError(f"task {name!r} is unknown. {nearest(name, _BUILT_IN)}")
    module, _, cls = _BUILT_IN[name].rpartition(".")
    found: type[Task] = getattr(importlib.import_module(f"tfbigbatch.tasks.{module}"), cls)
    return found


def model_defaults(name: str, model: str | None = None) -> dict[str, Any]:
    """The fields of a task's model that an experiment may set, with their defaults.

    Args:
      name: of the task.
      model: name of the model, where the task has several.

    Raises:
      ValueError: the task is unknown; it has several models and none or an unknown one is named; or it
        has one, and a name is given.
    """
    task = get(name)
    if not task.models:
        if model is not None:
            raise InputError(f"task {name} has one model; leave model={model!r} out.")
        return dict(task.model_defaults)
    if model is None:
        raise InputError(f"task {name} has several models. Name one: model='...', of {', '.join(task.models)}.")
    return task.model_defaults_of(model)
