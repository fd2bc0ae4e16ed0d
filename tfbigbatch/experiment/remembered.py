"""The experiment file that a run directory remembers: it registers the task of the user that the run trains.

A run's config names the file in its field `experiment`. The run directory keeps a copy of the file's text, for the day
that the file is gone. Both are executed: read only run directories that you trust.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from tfbigbatch import tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import files

COPY = "experiment.py"
"""Name of the copy in a run directory."""


def register_task_of(config: Mapping[str, Any], run_directory: str | None = None) -> None:
    """Executes the experiment file of a config, if the config's task is unknown in this process.

    Args:
      config: of the run, plain or a ConfigDict.
      run_directory: where a copy of the file may be, used with a warning where the file itself is gone.

    Raises:
      ValueError: the file raises, or does not register the task.
    """
    task, remembered = config.get("task"), config.get("experiment") or ""
    if task in tasks.names() or not isinstance(task, str) or not isinstance(remembered, str):
        return
    path = files.find(remembered)[0] if remembered else ""
    copy = os.path.join(run_directory, COPY) if run_directory else ""
    if not os.path.isfile(path):
        if not os.path.isfile(copy):
            return
        if path:
            warnings.warn(
                f"{path} is gone: the task {task!r} is registered by its copy, {copy}. Modules that it imports from "
                "its own folder are not in the copy.",
                stacklevel=2,
            )
        path = copy
    files.execute(path)
    if task not in tasks.names():
        raise InputError(
            f"{path} does not register the task {task!r} of the run {run_directory or ''}; it registers "
            f"{', '.join(tasks.registered()) or 'none'}. Name the file that does: --register=FILE."
        )


def copy_of(config: Mapping[str, Any]) -> dict[str, bytes]:
    """The copy of the experiment file that a run directory keeps, by name; {} for a task of this package."""
    remembered = config.get("experiment") or ""
    path = files.find(remembered)[0] if remembered else ""
    if config["task"] not in tasks.registered() or not os.path.isfile(path):
        return {}
    with open(path, "rb") as file:
        return {COPY: file.read()}
