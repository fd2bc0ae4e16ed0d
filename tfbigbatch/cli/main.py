"""The console script `tfbigbatch`: finds a sub-command, prints its help or runs it."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from types import ModuleType
from typing import NamedTuple, NoReturn

from absl import flags

from tfbigbatch import __version__
from tfbigbatch.errors import nearest
from tfbigbatch.utils import command

_WIDTH = 100


class Command(NamedTuple):
    """A sub-command: its module of `tfbigbatch.cli`, its line in `tfbigbatch --help`, its arguments beside flags.

    The module has a docstring, `define_flags()` and `main(arguments)`.
    """

    module: str
    summary: str
    positional: str = ""


COMMANDS = {
    "tune": Command("tune", "Carry a recipe to a larger batch: search, and train the best, for about three runs."),
    "train": Command("train", "Train, resume or evaluate one experiment."),
    "sweep": Command("sweep", "Train a sweep, several experiments or a grid of learning rates; write table and plots."),
    "report": Command(
        "report", "Write a page, tables and plots from run directories; split what they lose.", "[RUN_DIR...]"
    ),
    "critical-batch": Command(
        "critical_batch", "Measure the critical batch of a run by branching from its checkpoints.", "[RUN_DIR]"
    ),
    "advise": Command("advise", "Measure an experiment for two minutes: the batch worth using, and its recipe."),
    "export": Command("export", "Write the trained network of a run for Keras and for serving.", "RUN_DIR"),
    "scale": Command("scale", "Show what a scaling rule makes of a recipe at other batch sizes."),
    "translate": Command("translate", "Translate a text with the network of a GNMT run."),
    "prepare-imagenet": Command("prepare.imagenet", "Prepare ImageNet, or any folder of images by class."),
    "prepare-bert": Command("prepare.bert", "Prepare plain text for BERT pretraining."),
    "prepare-wmt": Command("prepare.wmt", "Prepare parallel texts for translation."),
    "prepare-ptb": Command("prepare.ptb", "Prepare the Penn Treebank, or other text, for language modelling."),
    "tpu-check": Command("tpu_check", "Compile a training step for a TPU slice, without a TPU: does it fit?"),
    "launch-local": Command(
        "launch_local", "Run a command as a cluster of processes on this machine.", "-- COMMAND [ARGUMENT...]"
    ),
}


def main() -> NoReturn:
    """The entry of the console script."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("help", "--help", "-help", "-h"):
        print(overview())
        sys.exit(0 if arguments else 1)
    if arguments[0] == "--version":
        print(f"tfbigbatch {__version__}")
        sys.exit(0)
    name = arguments[0].replace("_", "-")
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS)
        print(f"error: {arguments[0]!r} is not a command. {hint}\nSee: tfbigbatch --help", file=sys.stderr)
        sys.exit(1)
    run_command(name, arguments[1:])


def overview() -> str:
    """The text of `tfbigbatch --help`."""
    lines = [f"  {name:18s}{each.summary}" for name, each in COMMANDS.items()]
    head = "usage: tfbigbatch COMMAND [--FLAG=VALUE ...]\n\nLarge-batch training for Keras and TensorFlow.\n\ncommands:"
    return "\n".join([head, *lines, "", "`tfbigbatch COMMAND --help` lists the flags of a command."])


def help_of(name: str) -> str:
    """The text of `tfbigbatch NAME --help`; imports the command's module, but not TensorFlow."""
    module = _module(name)
    before = set(flags.FLAGS)
    module.define_flags()
    defined = [flags.FLAGS[each] for each in flags.FLAGS if each not in before]
    flags.FLAGS.remove_flag_values([flag.name for flag in defined])
    usage = ["usage: tfbigbatch", name, COMMANDS[name].positional, "[--FLAG=VALUE ...]"]
    described = [line for flag in sorted(defined, key=lambda flag: flag.name) for line in _flag_lines(flag)]
    return "\n".join([" ".join(filter(None, usage)), "", (module.__doc__ or "").strip(), "", "flags:", *described])


def run_command(name: str, arguments: list[str]) -> NoReturn:
    """Runs a sub-command, one of COMMANDS, with its arguments, or prints its help, and exits."""
    if {"--help", "-help", "-h"} & set(itertools.takewhile(lambda each: each != "--", arguments)):
        print(help_of(name))
        sys.exit(0)
    module = _module(name)
    module.define_flags()
    sys.argv = [f"tfbigbatch {name}", *arguments]
    command.execute(module.main, takes_arguments=bool(COMMANDS[name].positional))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"tfbigbatch.cli.{COMMANDS[name].module}")


def _flag_lines(flag: flags.Flag) -> list[str]:
    """The lines of --help for a flag: its name, and what it does, with its default."""
    first = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}={flag.name.upper()}"
    default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
    words = flag.help if default in (None, "", False) else f"{flag.help} (default: {default})"
    return [first, *textwrap.wrap(words, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)]


if __name__ == "__main__":
    main()
