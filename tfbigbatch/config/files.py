"""Experiment and sweep files: found by path or name, executed, and their mistakes reported.

A run's config names its file in the field `experiment`: it registers the task of the user that the run trains. A run
directory may come from anybody, so that this file is executed only where the user named it in this command (`execute`,
or a command's --config or --register), or where `record` wrote, outside of the run directory, that this user trained
the run with it.
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import hashlib
import importlib.util
import inspect
import os
import sys
import traceback
import types
import zlib
from collections.abc import Mapping
from typing import Any

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.utils.files import read_bytes, reading_errors, write_text
from tfbigbatch.utils.home import expanded

# The folder of the experiments that the package ships.
SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "experiments")
# Name of the copy of an experiment file in a run directory.
_COPY = "experiment.py"
# The files that this process executed, by their absolute paths.
_executed: dict[str, types.ModuleType] = {}


def variant_of(file: str, base: str) -> ml_collections.ConfigDict:
    """The config of the experiment `base` in the same folder as `file`, to be changed.

    Use: `config = variant_of(__file__, "lstm_small_batch.py")`; `base` may carry an argument, "lamb.py:1k".
    """
    return load_config(os.path.join(os.path.dirname(os.path.abspath(file)), base))


def find(experiment: str) -> tuple[str, str | None]:
    """(path, argument) of an experiment or sweep: a path, or the name of one that the package ships.

    'experiments/bert/lamb.py:32k' is a path with an argument; 'bert/lamb:32k' and 'bert/lamb.py:32k' are the same by
    name. A path that exists is preferred to a name.
    """
    path, argument = split(expanded(experiment))
    shipped = os.path.join(SHIPPED, path.removeprefix("experiments/").removesuffix(".py") + ".py")
    return (shipped if not os.path.isfile(path) and os.path.isfile(shipped) else path), argument


def split(experiment: str) -> tuple[str, str | None]:
    """(path or name, argument) of an experiment; the colons of a file that exists are of its path."""
    path, colon, argument = experiment.rpartition(":")
    return (path, argument) if colon and not os.path.isfile(experiment) else (experiment, None)


def shipped() -> list[str]:
    """Names of the experiments that the package ships, with their variants: 'bert/lamb:32k'. Executes their files."""
    names = []
    for path in sorted(glob.glob(os.path.join(glob.escape(SHIPPED), "*", "*.py"))):
        name = os.path.relpath(path, SHIPPED).removesuffix(".py")
        if not os.path.basename(path).startswith("sweep"):
            variants = getattr(_module(path, "config"), "VARIANTS", None)
            names += [f"{name}:{variant}" for variant in variants] if variants else [name]
    return names


def load_config(experiment: str) -> ml_collections.ConfigDict:
    """The config that an experiment file gives, locked.

    Args:
      experiment: its path or its name, with the file's argument behind a colon; see `find`.

    Raises:
      ValueError: there is no such file, it sets a field that does not exist or with a wrong type, takes no such
        argument, or has no `get_config`.
    """
    config = call(experiment, "get_config", flag="config")
    if not isinstance(config, ml_collections.ConfigDict):
        raise InputError(
            f"--config={experiment}: get_config() returned {type(config).__name__}; expected what new_config gave."
        )
    path, argument = find(experiment)
    config.experiment = address(path, argument)
    # As plain values: the recipe is tuned at the file's batch size, whatever that becomes.
    return config.copy_and_resolve_references().lock()


def address(path: str, argument: str | None = None) -> str:
    """The config's field `experiment`: the absolute path of a file, with its argument."""
    return os.path.abspath(path) + ("" if argument is None else f":{argument}")


def call(experiment: str, function: str, *, flag: str) -> Any:
    """The result of a function of a Python file, called with the argument behind the colon where there is one.

    Args:
      experiment: the file's path or name, with its argument; see `find`.
      function: its name.
      flag: the command's flag that named the file, for errors.

    Raises:
      ValueError: there is no such file or function, it takes no argument, or it trips over a config's field.
    """
    path, argument = find(experiment)
    module = _module(path, flag)
    found, variants = getattr(module, function, None), getattr(module, "VARIANTS", None)
    if found is None:
        raise InputError(f"--{flag}={experiment} has no function {function}(); see experiments/README.md.")
    if argument is not None and not inspect.signature(found).parameters:
        raise InputError(f"--{flag}={experiment}: {os.path.basename(path)} takes no argument; leave :{argument} out.")
    if argument is not None and variants and argument not in variants:
        raise InputError(f"--{flag}={experiment}: there is no variant {argument!r}. {nearest(argument, variants)}")
    try:
        return found() if argument is None else found(argument)
    except Exception as error:
        raise _of_file(error, path, flag) from None


def execute(experiment: str, flag: str = "config") -> None:
    """Executes a file for what it registers; `flag` named it, for errors."""
    _module(find(experiment)[0], flag)


def was_named(path: str) -> bool:
    """True if this process executed a file, which exists."""
    return os.path.isfile(path) and os.path.realpath(path) in map(os.path.realpath, _executed)


def executed(path: str) -> types.ModuleType:
    """The module of a file: as this process executed it last, or executed now."""
    return _executed.get(os.path.abspath(path)) or _module(path, "config")


def _module(path: str, flag: str) -> types.ModuleType:
    if not os.path.isfile(path):
        name = "/".join(path.removesuffix(".py").split("/")[-2:])
        close = difflib.get_close_matches(name, shipped(), 1, 0.7)
        hint = f"Did you mean {close[0]!r}?" if close else "Give a file, or a name such as digits/lstm_legw."
        raise InputError(f"--{flag}={path}: no such file. {hint}")
    name = f"tfbigbatch_experiment_{zlib.crc32(os.path.abspath(path).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"--{flag}={path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    # TensorFlow reads a function's source by way of its module; a user's file imports what lies beside it.
    sys.modules[name] = module
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path and not folder.startswith(SHIPPED):
        sys.path.append(folder)
    _executed[os.path.abspath(path)] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _of_file(error, path, flag) from None
    return module


def _of_file(error: Exception, path: str, flag: str) -> InputError:
    """The error for an exception that the code of a file raised: with its line in the file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(path)]
    at = f"--{flag}={path}" + (f", line {own[-1].lineno}" if own else "")
    if isinstance(error, InputError):
        return InputError(f"{at}: {error}")
    return InputError(f"{at}: {type(error).__name__}: {message_of(error)}")


def message_of(error: Exception) -> str:
    """An exception's message, without the whole config that ml_collections prints in the middle of its own."""
    lines = str(error.args[0] if error.args else error).replace("\\n", "\n").strip().splitlines() or [""]
    hint = f" {lines[-1]}" if lines[-1].startswith("Did you mean") else ""
    return lines[0].split(" Other fields present")[0] + hint


# ---- The file that a run directory remembers --------------------------------------------------


def register_task_of(config: Mapping[str, Any], run_directory: str | None = None) -> None:
    """Executes the experiment file of a run's config, if its task or its model is unknown in this process.

    Raises:
      ValueError: the file may not be executed, or it raises.
    """
    task, model = config.get("task"), config.get("model")
    if not isinstance(task, str):
        return
    if task in tasks.names():
        models = tasks.get(task).models
        if not models or model is None or not hasattr(model, "get") or model.get("name") in models:
            return
    if path := _found(config.get("experiment"), run_directory):
        _module(path, "register")


def callbacks_of(config: Mapping[str, Any], run_directory: str) -> list[Any]:
    """The Keras callbacks that `get_callbacks` of a run's experiment file lists; [] where it has none.

    It receives the config, and the run directory where it takes two arguments.

    Raises:
      ValueError: the file may not be executed, or `get_callbacks` returns no list, or raises.
    """
    path = _found(config.get("experiment"), run_directory)
    function = getattr(executed(path), "get_callbacks", None) if path else None
    if path is None or function is None:
        return []
    try:
        return list(function(*(config, run_directory)[: len(inspect.signature(function).parameters)]))
    except Exception as error:
        raise _of_file(error, path, "config") from error


def record(config: Mapping[str, Any], run_directory: str) -> None:
    """Records that this user trains the run of a directory with an experiment file that this process executed.

    The record, an empty file in the user's folder of states ($XDG_STATE_HOME, ~/.local/state), lets later commands on
    the run execute the file without its being named again. Without a folder to write to there is none.
    """
    path = _of_user(config)
    if path and not _is_inside(path, run_directory):
        place = _record_of(run_directory, path)
        with contextlib.suppress(OSError, InputError):
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            write_text(place, "")


def copy_of(config: Mapping[str, Any]) -> dict[str, bytes]:
    """The copy of the experiment file that a run directory keeps, by name.

    There is none of a file of this package, nor of one that was not named to this process.
    """
    path = _of_user(config)
    with reading_errors(path):
        return {_COPY: read_bytes(path)} if path else {}


def _of_user(config: Mapping[str, Any]) -> str:
    """The path of a config's experiment file, where it was named to this process and is none of this package's."""
    path = _path(config.get("experiment"))
    return path if was_named(path) and not _is_inside(path, SHIPPED) else ""


def _found(remembered: Any, run_directory: str | None) -> str | None:
    """The path of the experiment file to execute; an error where nothing says that the user wants it executed."""
    path = _path(remembered)
    copy = os.path.join(run_directory, _COPY) if run_directory else ""
    # Another file of this name stands for it: the run may come from another machine.
    same = [each for each in _executed if os.path.basename(each) == os.path.basename(path)]
    if named := [each for each in (*same, copy) if was_named(each)]:
        return named[-1]
    is_own = bool(copy) and os.path.lexists(copy)
    # Another checkout of the package may have trained the run; what this one ships is at hand.
    shipped = os.path.join(SHIPPED, *path.split(os.sep)[-2:])
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
        "commands as --register=FILE, in Python to tfbigbatch.config.execute(FILE)."
    )


def _path(remembered: Any) -> str:
    """The absolute path in a config's field `experiment`, without an argument; of a name that the package ships its."""
    if not isinstance(remembered, str) or not remembered:
        return ""
    # What is relative may lie beside anything; the trainer writes absolute paths alone, and sweeps shipped names.
    return os.path.join(SHIPPED, split(remembered)[0])


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
