"""The console script `tfbigbatch`: finds a sub-command, prints its help or runs it."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import textwrap
from types import ModuleType
from typing import NoReturn

from absl import flags

from tfbigbatch import __version__
from tfbigbatch.errors import nearest
from tfbigbatch.utils import command

_WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Command:
    """A sub-command.

    Attributes:
      module: of `tfbigbatch.cli`; it has a docstring, `define_flags()` and `main(arguments)`.
      summary: its line in `tfbigbatch --help`.
      positional: the arguments that are not flags, for the usage line; empty for none.
    """

    module: str
    summary: str
    positional: str = ""


COMMANDS = {
    "train": Command("train", "Train, resume or evaluate one experiment."),
    "study": Command(
        "study", "Train a study, several experiments or a grid of learning rates; write table and plots.", "[few_steps]"
    ),
    "report": Command("report", "Write a page, tables and plots from run directories.", "[RUN_DIR...]"),
    "explain": Command("explain", "Split what large-batch runs lose: plateau, path, overfitting.", "[RUN_DIR...]"),
    "critical-batch": Command(
        "critical_batch", "Measure the critical batch of a run by branching from its checkpoints.", "[RUN_DIR]"
    ),
    "advise": Command("advise", "Measure an experiment for two minutes: the batch worth using, and its recipe."),
    "export": Command("export", "Write the trained network of a run for Keras 2, Keras 3 and serving.", "RUN_DIR"),
    "scale": Command("scale", "Show what a scaling rule makes of a recipe at other batch sizes."),
    "translate": Command("translate", "Translate a text with the network of a GNMT run."),
    "score": Command("score", "Score predictions by the rules of SQuAD, GLUE or RACE.", "squad|glue|race"),
    "prepare-imagenet": Command("prepare.imagenet", "Prepare ImageNet, or any folder of images by class."),
    "prepare-bert": Command("prepare.bert", "Prepare plain text for BERT pretraining."),
    "prepare-wmt": Command("prepare.wmt", "Prepare parallel texts for translation."),
    "prepare-ptb": Command("prepare.ptb", "Prepare the Penn Treebank, or other text, for language modelling."),
    "tpu-check": Command("tpu.check", "Compile a training step for a TPU slice, without a TPU: does it fit?"),
    "plan": Command("tpu.plan", "Plan the time of a step and a run on TPU slices, from compiled steps."),
    "launch-local": Command(
        "launch_local", "Run a command as a cluster of processes on this machine.", "-- COMMAND [ARGUMENT...]"
    ),
}


def main(name: str | None = None) -> NoReturn:
    """The entry of the console script, and of scripts for one sub-command.

    Args:
      name: the sub-command; by default the first argument of the command line.
    """
    arguments = sys.argv[1:]
    if name is not None:
        run_command(name, arguments, f"python {sys.argv[0]}")
    if not arguments or arguments[0] in ("help", "--help", "-help", "-h", "--helpfull", "--helpshort"):
        if arguments[1:] and arguments[1] in COMMANDS:
            run_command(arguments[1], ["--help"], f"tfbigbatch {arguments[1]}")
        print(overview())
        sys.exit(0 if arguments else 1)
    if arguments[0] == "--version":
        print(f"tfbigbatch {__version__}")
        sys.exit(0)
    name = arguments[0].replace("_", "-")
    if name not in COMMANDS:
        print(
            f"error: {arguments[0]!r} is not a command. {nearest(name, COMMANDS)}\nSee: tfbigbatch --help",
            file=sys.stderr,
        )
        sys.exit(1)
    run_command(name, arguments[1:], f"tfbigbatch {name}")


def overview() -> str:
    """The text of `tfbigbatch --help`."""
    lines = [f"  {name:18s}{each.summary}" for name, each in COMMANDS.items()]
    return "\n".join(
        [
            "usage: tfbigbatch COMMAND [--FLAG=VALUE ...]",
            "",
            "Large-batch training for Keras and TensorFlow.",
            "",
            "commands:",
            *lines,
            "",
            "`tfbigbatch COMMAND --help` lists the flags of a command.",
        ]
    )


def help_of(name: str, program: str | None = None) -> str:
    """The text of `tfbigbatch NAME --help`; imports the command's module, but not TensorFlow.

    Args:
      name: of the sub-command.
      program: how the user called it.
    """
    module = _module(name)
    before = set(flags.FLAGS)
    module.define_flags()
    defined = [flags.FLAGS[each] for each in flags.FLAGS if each not in before]
    try:
        usage = [program or f"tfbigbatch {name}", COMMANDS[name].positional, "[--FLAG=VALUE ...]"]
        described = [line for flag in sorted(defined, key=lambda flag: flag.name) for line in _flag_lines(flag)]
        doc = (module.__doc__ or "").strip()
        return "\n".join([f"usage: {' '.join(filter(None, usage))}", "", doc, "", "flags:", *described])
    finally:
        flags.FLAGS.remove_flag_values([flag.name for flag in defined])


def run_command(name: str, arguments: list[str], program: str) -> NoReturn:
    """Runs a sub-command, or prints its help, and exits.

    Args:
      name: in COMMANDS.
      arguments: of the sub-command.
      program: how the user called it, for messages.
    """
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if {"--help", "-help", "-h", "--helpshort"} & set(own):
        print(help_of(name, program))
        sys.exit(0)
    module = _module(name)
    module.define_flags()
    sys.argv = [program, *arguments]
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
