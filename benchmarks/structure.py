"""The size and shape of this repository, counted from its files, beside those of an earlier commit.

    python benchmarks/structure.py --against=0b83eaf --row='`make test`, s=703,440' --folders
    python benchmarks/structure.py --walks --page=docs/development.md

Prints Markdown: a row for each figure, and with --folders the lines of each folder of the package. Nothing of the
package is imported, so that any commit can be counted.

--walks runs one LAMB step of Keras 3 on TensorFlow, one on JAX, one Muon step, reads an image batch, and trains a small
run, each in a process of its own: the files and functions of the package that it executes, in their order, and the
calls from a file back up into one that the walk had come to before it (`walks.py` says what is counted).
"""

from __future__ import annotations

import ast
import collections
import contextlib
import os
import pathlib
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import harness

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LONG = 60
# The arguments of walks.py.
_WALKS = {
    "LAMB on TensorFlow": ("--optimizer=LAMB", "--backend=tensorflow"),
    "LAMB on JAX": ("--optimizer=LAMB", "--backend=jax"),
    "Muon on TensorFlow": ("--optimizer=Muon", "--backend=tensorflow"),
    "an image batch": ("--images",),
    "a run": ("--run",),
}
_COUNTED = "files / functions / calls / back up"
_BEGIN, _END = "<!-- walks -->", "<!-- end of walks -->"


class Tree:
    """The tracked files of a commit, or of this checkout with what is not committed yet.

    Args:
      root: the folder that holds them.
      files: their paths below it.
    """

    def __init__(self, root: str, files: list[str]) -> None:
        self.root, self.files = root, [path for path in files if os.path.isfile(os.path.join(root, path))]

    def below(self, folder: str, suffix: str = ".py") -> list[str]:
        """The paths in a folder with this suffix."""
        return [path for path in self.files if path.startswith(f"{folder}/") and path.endswith(suffix)]

    def text(self, path: str) -> str:
        """The content of a file."""
        return pathlib.Path(self.root, path).read_text(encoding="utf-8")

    def lines(self, paths: list[str]) -> int:
        """The lines of files together."""
        return sum(len(self.text(path).splitlines()) for path in paths)

    def words(self, paths: list[str]) -> int:
        """The words of pages together."""
        return sum(len(self.text(path).split()) for path in paths)


@contextlib.contextmanager
def of_commit(revision: str) -> Iterator[Tree]:
    """The files of a commit, unpacked for as long as the context."""
    with tempfile.TemporaryDirectory() as root:
        archive = subprocess.run(["git", "archive", revision], cwd=harness.ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-xf", "-", "-C", root], input=archive.stdout, check=True)
        files = [path for path in pathlib.Path(root).rglob("*") if path.is_file()]
        yield Tree(root, sorted(path.relative_to(root).as_posix() for path in files))


def of_checkout() -> Tree:
    """The files of this checkout."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=harness.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Tree(harness.ROOT, sorted(set(done.stdout.splitlines())))


def functions(text: str) -> list[int]:
    """The lines of each function and method in a module's text."""
    return [
        (each.end_lineno or 0) - each.lineno + 1 for each in ast.walk(ast.parse(text)) if isinstance(each, _FUNCTIONS)
    ]


def inner_imports(text: str) -> int:
    """The imports within functions in a module's text."""
    made = (each for each in ast.walk(ast.parse(text)) if isinstance(each, _FUNCTIONS))
    found = {inner for each in made for inner in ast.walk(each) if isinstance(inner, (ast.Import, ast.ImportFrom))}
    return len(found)


def counted(tree: Tree) -> dict[str, str]:
    """The figures of a tree, as text."""
    package, tests, benchmarks = (tree.below(folder) for folder in ("tfbigbatch", "tests", "benchmarks"))
    texts = {path: tree.text(path) for path in package}
    lengths = [length for text in texts.values() for length in functions(text)]
    of_files = [len(text.splitlines()) for text in texts.values()]
    pages = [*(path for path in tree.files if "/" not in path and path.endswith(".md")), *tree.below("docs", ".md")]
    stored = [path for path in tree.files if path.startswith("results/")]
    sizes = {path: os.path.getsize(os.path.join(tree.root, path)) for path in tree.files}
    return {
        "lines of the package": f"{sum(of_files):,}",
        "files of the package": f"{len(package):,}",
        "median lines of a file": f"{statistics.median(of_files):.0f}",
        "functions": f"{len(lengths):,}",
        "median lines of a function": f"{statistics.median(lengths):.0f}",
        f"functions over {_LONG} lines": f"{sum(length > _LONG for length in lengths):,}",
        "imports within functions": f"{sum(map(inner_imports, texts.values())):,}",
        "lines of tests": f"{tree.lines(tests):,}",
        "lines of benchmarks": f"{tree.lines(benchmarks):,}",
        "files of benchmarks": f"{len(benchmarks):,}",
        "words of pages": f"{tree.words(pages):,}",
        "words of results": f"{tree.words([path for path in stored if path.endswith('.md')]):,}",
        "files of results": f"{len(stored):,}",
        "MB of results": f"{sum(sizes[path] for path in stored) / 1e6:.1f}",
        "entries at the root": f"{len({path.split('/')[0] for path in tree.files}):,}",
        "files of a clone": f"{len(tree.files):,}",
        "MB of a clone's files": f"{sum(sizes.values()) / 1e6:.1f}",
    }


def folders(tree: Tree) -> dict[str, int]:
    """The lines of each folder of the package, with those in it; '' for files of no folder."""
    found: collections.Counter[str] = collections.Counter()
    for path in tree.below("tfbigbatch"):
        _, *between, _ = path.split("/")
        found[between[0] if between else ""] += tree.lines([path])
    return dict(found)


def walk(root: str, *arguments: str) -> dict[str, Any]:
    """What `walks.py` prints, by its arguments, of the package in a folder."""
    script = os.path.join(harness.ROOT, "benchmarks", "walks.py")
    environment = {"PYTHONPATH": root, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    worker = harness.Worker([script, *arguments], environment=environment)
    with contextlib.closing(worker):
        return worker.ask()


def walked(found: dict[str, Any]) -> list[str]:
    """The files, functions, calls and calls back up of a walk, as text."""
    calls, up = (sum(calls for *_, calls in found[kind]) for kind in ("functions", "up"))
    files = {file for file, _, _ in found["functions"]}
    return [f"{number:,}" for number in (len(files), len(found["functions"]), calls, up)]


def path_of(found: dict[str, Any]) -> str:
    """The files of a walk in the order of their first calls, each with its functions in theirs, and what goes up."""
    files: dict[str, list[str]] = {}
    for file, name, calls in found["functions"]:
        files.setdefault(file, []).append(f"`{name}`" + f" {calls}" * (calls > 1))
    lines = [f"{number}. `{file}`: {', '.join(names)}" for number, (file, names) in enumerate(files.items(), 1)]
    up = [f"`{caller}` to `{callee}` {calls}" for caller, callee, calls in found["up"]]
    return "\n".join([*lines, "", f"Back up: {', '.join(up) or 'none'}."])


def walks_section(found: dict[str, dict[str, Any]]) -> str:
    """The table of some walks by their names, and the path of each."""
    rows = [[name, *walked(each)] for name, each in found.items()]
    summary = harness.table(["one walk", "files", "functions", "calls", "back up"], rows)
    return "\n\n".join([summary, *(f"{name}:\n\n{path_of(each)}" for name, each in found.items())])


def write_section(path: str, section: str) -> None:
    """Puts a section between the marks of a page.

    Raises:
      ValueError: the page has no such marks.
    """
    page = pathlib.Path(path)
    before, begins, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, ends, after = rest.partition(_END)
    if not begins or not ends:
        raise ValueError(f"{path} has no lines {_BEGIN} and {_END}; the walks are written between them.")
    page.write_text(f"{before}{_BEGIN}\n{section}\n{_END}{after}", encoding="utf-8")


def main() -> None:
    """Prints the tables."""
    parser = harness.parser(__doc__)
    parser.add_argument("--against", help="commit to count beside this checkout")
    parser.add_argument("--row", action="append", default=[], help="NAME=BEFORE,AFTER: a further row; NAME=NOW alone")
    parser.add_argument("--folders", action="store_true", help="also the lines of each folder of the package")
    parser.add_argument("--walks", action="store_true", help="also the functions that a step or a batch executes")
    parser.add_argument("--page", help="also write the walks between the marks of this page")
    given = parser.parse_args()
    with of_commit(given.against) if given.against else contextlib.nullcontext() as before:
        trees = [before, of_checkout()] if before else [of_checkout()]
        columns = [counted(tree) for tree in trees]
        rows = [[name, *(column[name] for column in columns)] for name in columns[-1]]
        walks = [{name: walk(tree.root, *of) for name, of in _WALKS.items() if given.walks} for tree in trees]
        rows += [[f"{name}: {_COUNTED}", *(" / ".join(walked(each[name])) for each in walks)] for name in walks[-1]]
        rows += [[name, *values.split(",")] for name, _, values in (row.rpartition("=") for row in given.row)]
        headings = ["before", "now"] if given.against else ["now"]
        print(harness.table(["", *headings], rows))
        if given.folders:
            counts = [folders(tree) for tree in trees]
            names = sorted({name for count in counts for name in count})
            lines = [[name or "(none)", *(f"{count.get(name, 0):,}" for count in counts)] for name in names]
            print(f"\n{harness.table(['folder of the package', *headings], lines)}")
        if given.walks:
            print(f"\n{walks_section(walks[-1])}")
            if given.page:
                write_section(given.page, walks_section(walks[-1]))


if __name__ == "__main__":
    main()
