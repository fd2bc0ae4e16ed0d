"""The shell commands of the project's pages, and the files that the pages have the reader write."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import shlex

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = [
    os.path.relpath(path, ROOT)
    for pattern in (
        "README.md",
        "docs/**/*.md",
        "results/README.md",
        "results/measurements/*.md",
        "examples/README.md",
        "tfbigbatch/experiments/**/README.md",
    )
    for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))
]

_BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"(?:\S*/bin/)?(python3?|tfbigbatch|make|pip|pytest|tensorboard)")
# What may stand before a program, and the flags of srun.
_BEFORE = re.compile(r"[A-Z_][A-Z0-9_]*=.*|srun|/usr/bin/time|--kill-on-bad-exit=1")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of a page.

    Attributes:
      page: its path from the root.
      text: as the page has it, in one line and without its comment; of a line with &&, one part.
      words: the program without its folder, and its arguments as the shell would give them.
      environment: the assignments before the program.
      fenced: whether it is in a block of its own; otherwise between backticks in a sentence or a table, where it
        may be a name alone, as `tfbigbatch train`.
    """

    page: str
    text: str
    words: tuple[str, ...]
    environment: tuple[str, ...] = ()
    fenced: bool = True


def of_page(page: str) -> list[Command]:
    """The commands of a page in their order: those of fenced blocks, then those between backticks."""
    text = _read(page)
    found = []
    for match in _BLOCK.finditer(text):
        if not match[2].startswith(("python", "yaml", "bibtex", "json")):
            for line in match[3].replace("\\\n", "").splitlines():
                found += _commands(page, line, fenced=True)
    for code in re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text)):
        found += [each for each in _commands(page, code, fenced=False) if len(each.words) > 1]
    return found


def files_of(page: str) -> dict[str, str]:
    """The Python files that a page shows under a name, as "```python diabetes.py"."""
    blocks = ((match[2], match[3]) for match in _BLOCK.finditer(_read(page)))
    return {info.split()[1]: code for info, code in blocks if re.fullmatch(r"python \w+\.py", info)}


def _read(page: str) -> str:
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def _commands(page: str, line: str, fenced: bool) -> list[Command]:
    if not re.match(r"\s*(?:[A-Z_]+=|srun |\S*/bin/|python3? |tfbigbatch |make |pip |pytest |tensorboard )", line):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if word in ("&&", ";", "|", "&"):
            parts.append([])
        else:
            parts[-1].append(word)
    found = []
    for part in parts:
        before = 0
        while before < len(part) and _BEFORE.fullmatch(part[before]):
            before += 1
        if before < len(part) and (program := _PROGRAM.fullmatch(part[before])):
            words = part[before:]
            if ">" in words:
                words = words[: words.index(">")]
            environment = tuple(word for word in part[:before] if re.match(r"[A-Z_]+[A-Z0-9_]*=", word))
            name = program[1].replace("python3", "python")
            found.append(Command(page, shlex.join(part), (name, *words[1:]), environment, fenced))
    return found
