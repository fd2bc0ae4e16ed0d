"""The experiment file that a run directory remembers: it registers the task of the user that the run trains.

A run's config names the file in its field `experiment`. The run directory keeps a copy of the file's text, for the day
that the file is gone. A run directory may come from anybody, so that what lies in it is executed only where the user
named it (`execute`, or a command's --register or --config).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from tfbigbatch import tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import files

COPY = "experiment.py"
"""Name of the copy in a run directory."""


def register_task_of(config: Mapping[str, Any], run_directory: str | None = None) -> None:
    """Executes the experiment file of a config, if the config's task or its model is unknown in this process.

    Args:
      config: of the run, plain or a ConfigDict.
      run_directory: where a copy of the file may be.

    Raises:
      ValueError: the file raises, or does not register the task; or it is gone, and its copy was not executed yet.
    """
    task, remembered = config.get("task"), config.get("experiment") or ""
    if not isinstance(task, str) or not isinstance(remembered, str) or _is_known(task, config.get("model")):
        return
    path = _found(remembered, run_directory)
    if path is None:
        return
    files.execute(path)
    if task not in tasks.names():
        raise InputError(
            f"{path} does not register the task {task!r} of the run {run_directory or ''}; it registers "
            f"{', '.join(tasks.registered()) or 'none'}. Name the file that does: --register=FILE."
        )


def _is_known(task: str, model: Any) -> bool:
    """Whether a task is registered, and its model where it has several by name."""
    if task not in tasks.names():
        return False
    models = tasks.get(task).models
    return not models or not hasattr(model, "get") or model.get("name") in models


def callbacks_of(config: Mapping[str, Any], run_directory: str) -> list[Any]:
    """The Keras callbacks that the experiment file of a config lists in `get_callbacks`; [] where it has none.

    Args:
      config: of the run; what `get_callbacks` receives.
      run_directory: the second argument of `get_callbacks`, where it takes two.

    Raises:
      ValueError: `get_callbacks` returns something else, or raises.
    """
    path = _found(config.get("experiment") or "", run_directory)
    function = getattr(files.executed(path), "get_callbacks", None) if path else None
    if function is None:
        return []
    takes = len(inspect.signature(function).parameters)
    try:
        found = function(*(config, run_directory)[:takes])
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: get_callbacks() raised {type(error).__name__}: {error}") from error
    if not isinstance(found, (list, tuple)):
        raise InputError(f"{path}: get_callbacks() returned {type(found).__name__}; expected a list of callbacks.")
    return list(found)


def _found(remembered: str, run_directory: str | None) -> str | None:
    """The path of an experiment file, or of its copy in the run directory; None where neither is there.

    Raises:
      ValueError: the file that is left lies in the run directory, and the user did not name it.
    """
    path = files.find(remembered)[0] if remembered else ""
    inside = os.path.realpath(run_directory) + os.sep if run_directory else None
    if os.path.isfile(path) and (inside is None or not os.path.realpath(path).startswith(inside)):
        return path
    copy = path if os.path.isfile(path) else os.path.join(run_directory or "", COPY)
    if run_directory is None or not os.path.isfile(copy):
        return None
    if not files.was_executed(copy):
        raise InputError(
            f"{run_directory} is a run of {path or 'an experiment file'}, which is gone; a copy of it is in the run "
            f"directory. It is code: read it, and name it if you trust it, --register={copy} (train: --config={copy}; "
            f"Python: tfbigbatch.experiment.execute({copy!r}))."
        )
    return copy


def copy_of(config: Mapping[str, Any]) -> dict[str, bytes]:
    """The copy of the experiment file that a run directory keeps, by name; {} for a file of this package."""
    remembered = config.get("experiment") or ""
    path = files.find(remembered)[0] if remembered else ""
    if not os.path.isfile(path) or os.path.realpath(path).startswith(os.path.realpath(files.SHIPPED) + os.sep):
        return {}
    with open(path, "rb") as file:
        return {COPY: file.read()}
