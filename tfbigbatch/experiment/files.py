"""Experiment and study files: found by path or name, executed, and their mistakes reported."""

from __future__ import annotations

import difflib
import glob
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

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.experiment.overrides import set_fields
from tfbigbatch.utils.home import expanded

# The folder of the experiments that the package ships.
SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "experiments")
# The files that this process executed, by their absolute paths.
_executed: dict[str, types.ModuleType] = {}


def variant_of(file: str, base: str) -> ml_collections.ConfigDict:
    """The config of the experiment `base` in the same folder as `file`, to be changed.

    Use: `config = experiment.variant_of(__file__, "lstm_small_batch.py")`; `base` may carry an argument, "lamb.py:1k".
    """
    return load(os.path.join(os.path.dirname(os.path.abspath(file)), base))


def choose(
    config: ml_collections.ConfigDict, variants: Mapping[str, Mapping[str, Any]], name: str
) -> ml_collections.ConfigDict:
    """Sets the dotted fields of the variant `name` of a recipe in `config`; for an experiment file with an argument."""
    return set_fields(config, variants[name])


def find(experiment: str) -> tuple[str, str | None]:
    """(path, argument) of an experiment or study: a path, or the name of one that the package ships.

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
        if not os.path.basename(path).startswith("study"):
            variants = getattr(_module(path, "config"), "VARIANTS", None)
            names += [f"{name}:{variant}" for variant in variants] if variants else [name]
    return names


def load(experiment: str) -> ml_collections.ConfigDict:
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
            f"--config={experiment}: get_config() returned {type(config).__name__}; expected what experiment.new gave."
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


def named_as(path: str) -> str | None:
    """The file of a path's name that was named to this process last; None where there is none."""
    name = os.path.basename(path)
    return next((each for each in reversed(_executed) if os.path.basename(each) == name and was_named(each)), None)


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
