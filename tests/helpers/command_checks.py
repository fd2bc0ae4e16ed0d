"""Checks commands without running them: each program is started as it is, and ended once it has parsed its flags.

The program defines and parses its own flags, so that nothing here has to know them. Then the experiment, its fields
and the study that the command names are loaded.

    python -m tests.helpers.command_checks COMMANDS.json

The file holds a list of commands, each a list of words; the last line that is printed is a list of messages, "" for a
command without a mistake. The working directory is where the commands would be run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import runpy
import sys
import tomllib

from absl import app, flags

from tests.helpers.page_commands import ROOT
from tfbigbatch import experiment
from tfbigbatch.cli import experiment_flags, sweeps
from tfbigbatch.experiment import files
from tfbigbatch.studies import study
from tfbigbatch.utils import command

# Files that only the reader has.
_READERS = ("your_training.py",)
# How a program begins that this module can end once it has parsed its flags. Another takes none.
_PARSERS = ("command.execute(", "app.run(", ".parse_args(", "tfbigbatch.cli.main import")


class _Parsed(BaseException):
    """Raised in place of what a program does after it has parsed its flags."""


def problem(words: list[str]) -> str:
    """What is wrong with a command; "" for nothing.

    Args:
      words: the program, one of python, tfbigbatch, make, pip, pytest and tensorboard, and its arguments.
    """
    program, *arguments = words
    if "COMMAND" in arguments:
        return ""
    if program == "make":
        return _of_make(arguments)
    if program == "pip":
        return _of_pip(arguments)
    if program == "pytest" or arguments[:2] == ["-m", "pytest"]:
        return _missing_files([each for each in arguments if each.startswith("tests/")])
    if program == "tensorboard":
        return "" if all(re.match(r"--(host|logdir)=", each) for each in arguments) else "expected --host and --logdir"
    if program == "tfbigbatch":
        arguments = ["-m", "tfbigbatch", *arguments]
    own, _, launched = _partition(arguments, "--")
    return _of_python(own + (["--", "true"] if launched else [])) or (problem(launched) if launched else "")


def _partition(words: list[str], at: str) -> tuple[list[str], str, list[str]]:
    place = words.index(at) if at in words else len(words)
    return words[:place], at, words[place + 1 :]


def _missing_files(paths: list[str]) -> str:
    missing = [path for path in paths if not os.path.exists(path)]
    return f"{missing[0]}: no such file" if missing else ""


def _of_make(arguments: list[str]) -> str:
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        text = file.read()
    for word in arguments:
        variable = re.match(r"([A-Z]+)=", word)
        if variable and not re.search(rf"^{variable[1]} \?=", text, re.MULTILINE):
            return f"the Makefile has no variable {variable[1]}"
        if not variable and not re.search(rf"^{re.escape(word)}:", text, re.MULTILINE):
            return f"the Makefile has no target {word}"
    return ""


def _of_pip(arguments: list[str]) -> str:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    for word in arguments:
        asked = re.fullmatch(r"(?:\.|tfbigbatch)\[(.+)\]", word)
        for extra in asked[1].split(",") if asked else ():
            if extra not in extras:
                return f"there is no extra {extra}"
    return _missing_files([word for word in arguments if word.endswith(".txt")])


def _of_python(arguments: list[str]) -> str:
    """Of `python FILE ...`, `python FOLDER ...` and `python -m MODULE ...`."""
    if arguments[0] == "-m":
        name, rest = arguments[1], arguments[2:]
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            return f"there is no module {name}"
        ours = name.partition(".")[0] in ("tfbigbatch", "tools", "benchmarks")
        return _parsed(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), name, rest) if ours else ""
    path, rest = arguments[0], arguments[1:]
    if path in _READERS:
        return ""
    if not os.path.exists(path):
        return f"{path}: no such file"
    file = os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    with open(file, encoding="utf-8") as source:
        text = source.read()
    if not any(each in text for each in _PARSERS):
        return f"{path} takes no arguments" if rest else ""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    try:
        return _parsed(lambda: runpy.run_path(path, run_name="__main__"), path, rest)
    finally:
        del sys.path[0]


def _parsed(start, program: str, arguments: list[str]) -> str:
    """What a program says against its arguments."""
    # [--flag=VALUE] is one that may be left out.
    sys.argv = [program, *(re.sub(r"^\[(--.*)\]$", r"\1", each) for each in arguments)]
    modules, defined = set(sys.modules), set(flags.FLAGS)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            start()
        return f"{program} ended before it parsed its flags"
    except _Parsed as parsed:
        return str(parsed)
    except SystemExit as end:
        return said.getvalue().strip() if end.code else ""
    finally:
        for name in [name for name in flags.FLAGS if name not in defined]:
            delattr(flags.FLAGS, name)
        # So that the flags that they define on import are defined the next time.
        for name in set(sys.modules) - modules:
            if name.partition(".")[0] not in ("tfbigbatch", "tests") and _is_of_the_project(sys.modules[name]):
                del sys.modules[name]


def _is_of_the_project(module) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith((ROOT + os.sep, os.getcwd() + os.sep))


def _execute(main, parse_flags=None, takes_arguments=False):
    """In place of `command.execute`, and of `absl.app.run`."""
    # The value of --flag=... is left to the reader.
    elided = [re.match(r"--(\w+)", each)[1] for each in sys.argv if each.startswith("--") and "..." in each]
    unknown = [name for name in elided if name not in flags.FLAGS and name not in ("config", "sweep")]
    try:
        if unknown:
            raise ValueError(f"there is no flag --{unknown[0]}")
        given = [each for each in sys.argv if not each.startswith("--") or "..." not in each]
        rest = (parse_flags or command.parse)(given)
        if len(rest) > 1 and not takes_arguments:
            raise ValueError(f"{rest[1]!r} is not a flag")
        _load_what_is_named(flags.FLAGS)
    except (ValueError, flags.Error) as error:
        missing = re.match(r"--(\w+) is missing", str(error))
        raise _Parsed("" if missing and missing[1] in elided else str(error)) from None
    raise _Parsed


def _load_what_is_named(options: flags.FlagValues) -> None:
    """Loads the experiments and the study of a command, with their fields and rows; a mistake is a ValueError."""
    configs = [options.config] if "config" in options and options.config else []
    configs += (options.configs or []) if "configs" in options else []
    for name in configs:
        if name != "FILE":
            config = experiment.load(name)
            if "override" in options:
                experiment.override(config, experiment_flags.overrides(options))
            if "sweep" in options:
                sweeps.entries(name, "", options)
    if "smoke" in options and options.config and not options.smoke and not options.model_dir:
        raise ValueError("--model_dir is missing")
    if "study" in options and options.study:
        tables = [study.load(name) for name in _studies(options)]
        if len(tables) == 1:
            tables[0].selected(options.only or [] if "only" in options else [])


def _studies(options: flags.FlagValues) -> list[str]:
    """The study of a command, or its variants of the tasks."""
    tasks = options.tasks if "tasks" in options and options["tasks"].present else None
    has_variants = tasks and hasattr(files.executed(files.find(options.study)[0]), "VARIANTS")
    return [f"{options.study}:{task}" for task in tasks] if has_variants else [options.study]


def _parse_args(self, args=None, namespace=None):
    _PARSE_ARGS(self, args, namespace)
    raise _Parsed


_PARSE_ARGS = argparse.ArgumentParser.parse_args


def main(path: str) -> None:
    """See the module."""
    with open(path, encoding="utf-8") as file:
        commands = json.load(file)
    command.execute, app.run, argparse.ArgumentParser.parse_args = _execute, _execute, _parse_args
    print(f"\n{json.dumps([problem(words) for words in commands])}")


if __name__ == "__main__":
    main(sys.argv[1])
