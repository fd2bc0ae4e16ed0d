"""The experiment file that a run directory remembers: it registers the task of the user that the run trains.

A run's config names the file in its field `experiment`. A run directory may come from anybody, so that the file is
executed only where the user named it in this command (`execute`, or a command's --config or --register), or where
`record` wrote, outside of the run directory, that this user trained the run with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
from collections.abc import Mapping
from typing import Any

from tfbigbatch import tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import files
from tfbigbatch.utils.files import read_bytes, reading_errors, write_text

# Name of the copy in a run directory.
_COPY = "experiment.py"


def register_task_of(config: Mapping[str, Any], run_directory: str | None = None) -> None:
    """Executes the experiment file of a run's config, if its task or its model is unknown in this process.

    Raises:
      ValueError: the file may not be executed, it raises, or it does not register the task.
    """
    task, model = config.get("task"), config.get("model")
    if not isinstance(task, str):
        return
    if task in tasks.names():
        models = tasks.get(task).models
        if not models or model is None or not hasattr(model, "get") or model.get("name") in models:
            return
    path = _found(config.get("experiment"), run_directory)
    if path is None:
        return
    files.execute(path)
    if task not in tasks.names():
        raise InputError(
            f"{path} does not register the task {task!r} of the run {run_directory or ''}; it registers "
            f"{', '.join(tasks.registered()) or 'none'}. Name the file that does: --register=FILE."
        )


def callbacks_of(config: Mapping[str, Any], run_directory: str) -> list[Any]:
    """The Keras callbacks that `get_callbacks` of a run's experiment file lists; [] where it has none.

    It receives the config, and the run directory where it takes two arguments.

    Raises:
      ValueError: the file may not be executed, or `get_callbacks` returns something else, or raises.
    """
    path = _found(config.get("experiment"), run_directory)
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


def record(config: Mapping[str, Any], run_directory: str) -> None:
    """Records that this user trains the run of a directory with an experiment file that this process executed.

    The record, an empty file in the user's folder of states ($XDG_STATE_HOME, ~/.local/state), lets later commands on
    the run execute the file without its being named again. Without a folder to write to there is none.
    """
    path = _path(config.get("experiment"))
    if not files.was_named(path) or _is_inside(path, files.SHIPPED) or _is_inside(path, run_directory):
        return
    place = _record_of(run_directory, path)
    with contextlib.suppress(OSError, InputError):
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        write_text(place, "")


def _found(remembered: Any, run_directory: str | None) -> str | None:
    """The path of the experiment file to execute; an error where nothing says that the user wants it executed."""
    path = _path(remembered)
    copy = os.path.join(run_directory, _COPY) if run_directory else ""
    if named := files.named_as(path) or (copy if files.was_named(copy) else None):
        return named
    is_own = bool(copy) and os.path.lexists(copy)
    # Another checkout of the package may have trained the run; what this one ships is at hand.
    shipped = os.path.join(files.SHIPPED, *path.split(os.sep)[-2:])
    if path and not is_own and os.path.isfile(shipped):
        return shipped
    if os.path.isfile(path) and run_directory and _was_run_here(path, run_directory):
        return path
    if not is_own and not os.path.isfile(path):
        return None
    raise InputError(
        f"{run_directory or 'the config'} is of the experiment file {remembered or '(not named)'}, which is executed "
        "only if you name it, as this user has no record of training this run with it here: read it"
        f"{f' or its copy {copy}' if is_own else ''}, and if you trust it, pass it to train as --config=FILE, to other "
        "commands as --register=FILE, in Python to tfbigbatch.experiment.execute(FILE)."
    )


def _path(remembered: Any) -> str:
    """The absolute path in a config's field `experiment`, without an argument; of a name that the package ships its."""
    if not isinstance(remembered, str) or not remembered:
        return ""
    # What is relative may lie beside anything; the trainer writes absolute paths alone, and studies shipped names.
    return os.path.join(files.SHIPPED, files.split(remembered)[0])


def _is_inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)


def _was_run_here(path: str, run_directory: str) -> bool:
    """True if this user trained the run with the file, and the file, the run and the record are the user's own."""
    try:
        owners = {os.stat(each).st_uid for each in (path, run_directory, _record_of(run_directory, path))}
    except OSError:
        return False
    return owners == {os.getuid()} and not _is_inside(path, run_directory)


def _record_of(run_directory: str, path: str) -> str:
    """The place of the record of a run directory and its experiment file: its name is a hash of both."""
    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser(os.path.join("~", ".local", "state"))
    pair = "\0".join(map(os.path.realpath, (run_directory, path)))
    key = hashlib.sha256(pair.encode(errors="surrogateescape")).hexdigest()
    return os.path.join(home, "tfbigbatch", "runs", key)


def copy_of(config: Mapping[str, Any]) -> dict[str, bytes]:
    """The copy of the experiment file that a run directory keeps, by name.

    There is none of a file of this package, nor of one that was not named to this process.
    """
    path = _path(config.get("experiment"))
    if not files.was_named(path) or _is_inside(path, files.SHIPPED):
        return {}
    with reading_errors(path):
        return {_COPY: read_bytes(path)}
