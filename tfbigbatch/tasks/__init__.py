"""Tasks by name: model, data, loss, metrics and target, one file each."""

import importlib

from tfbigbatch.errors import InputError, nearest

# Named here, imported when asked for: a task's data or model may need an optional package.
_TASKS = {
    "bert_glue": "bert_finetuning.glue.BertGlue",
    "bert_pretraining": "bert_pretraining.BertPretraining",
    "bert_race": "bert_finetuning.race.BertRace",
    "bert_squad": "bert_finetuning.squad.BertSquad",
    "digits_lstm": "digits_lstm.DigitsLSTM",
    "gnmt": "gnmt.Gnmt",
    "image_classification": "image_classification.ImageClassification",
    "lstm_language_model": "language_model.LSTMLanguageModel",
    "mnist_lenet": "mnist_lenet.MnistLeNet",
    "mnist_lstm": "mnist_lstm.MnistLSTM",
}


def names():
    """The registered names, sorted."""
    return sorted(_TASKS)


def get(name):
    """The class of the task registered under `name`, the name of its file.

    Raises:
      ValueError: the name is unknown.
    """
    if name not in _TASKS:
        raise InputError(f"task {name!r} is unknown. {nearest(name, _TASKS)}")
    module, _, cls = _TASKS[name].rpartition(".")
    return getattr(importlib.import_module(f"tfbigbatch.tasks.{module}"), cls)


def model_defaults(name, model=None):
    """The fields of a task's model that an experiment may set, at their defaults.

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
