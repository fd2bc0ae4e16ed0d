"""The size and shape of the package, from its files alone: what docs/development.md shows.

    python benchmarks/structure.py [--package=tfbigbatch]

Prints a row for each figure. It imports nothing of the package, so that it measures any checkout.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function, bool]]:
    """(qualified name, function, whether it is public and not nested) of each function in a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{node.name}"
            yield name, node, not any(part.startswith("_") for part in name.split("."))
            yield from ((inner, each, False) for inner, each, _ in functions(node, f"{name}."))
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.expr):
            yield from functions(node, prefix)


def is_annotated(function: Function) -> bool:
    """Whether all arguments and the result have types."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    typed = all(each.annotation is not None for each in named if each is not None and each.arg not in ("self", "cls"))
    return typed and function.returns is not None


def code_lines(text: str) -> int:
    """Lines that are neither blank, nor a comment, nor part of a docstring."""
    lines = text.splitlines()
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(lines, 1)
        if number not in documented and line.strip() and not line.lstrip().startswith("#")
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", default="tfbigbatch", type=pathlib.Path, help="folder of the package")
    package: pathlib.Path = parser.parse_args().package
    # Recipes are read as data; they are counted apart.
    files = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] != "experiments"]
    recipes = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] == "experiments"]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    found = [
        (function.end_lineno - function.lineno + 1, f"{path.relative_to(package)}: {name}", public, function)
        for path in files
        for name, function, public in functions(ast.parse(path.read_text(encoding="utf-8")))
        if function.end_lineno is not None
    ]
    public = [function for _, _, is_public, function in found if is_public]
    folders: dict[pathlib.Path, int] = {}
    for path in files:
        folders[path.parent] = folders.get(path.parent, 0) + (path.name != "__init__.py")
    largest = sorted(folders, key=lambda folder: -folders[folder])[:3]
    length, longest = max((size, name) for size, name, _, _ in found)
    rows = [
        ("lines", f"{sum(lines.values()):,}"),
        ("lines of code", f"{sum(code_lines(path.read_text(encoding='utf-8')) for path in files):,}"),
        ("files", f"{len(files):,}"),
        ("experiment files", f"{len(recipes):,}"),
        ("longest function", f"{length} lines ({longest})"),
        ("functions over 60 lines", f"{sum(size > 60 for size, _, _, _ in found)}"),
        ("largest folders", ", ".join(f"{folder.relative_to(package)} ({folders[folder]})" for folder in largest)),
        ("files over 300 lines", ", ".join(f"{path.relative_to(package)}" for path in files if lines[path] > 300)),
        ("annotated public functions", f"{sum(map(is_annotated, public)):,} of {len(public):,}"),
    ]
    for name, value in rows:
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
