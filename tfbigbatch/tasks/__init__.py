"""Tasks by name: model, data, loss, metrics and target, one file each."""

import importlib

from tfbigbatch.errors import InputError, nearest

# Named here, imported when asked for: a task's data or model may need an optional package.
_TASKS = {
    "digits_lstm": "DigitsLSTM",
    "lstm_language_model": "LSTMLanguageModel",
    "mnist_lstm": "MnistLSTM",
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
    return getattr(importlib.import_module(f"tfbigbatch.tasks.{name}"), _TASKS[name])
