"""The budgets of docs/development.md: what the repository may have of each. A next feature says what it replaces."""

import os
import re
import subprocess

import pytest

from tests.helpers.repository import ROOT, read

_ROW = re.compile(r"^\| (.+?) \| ([\d,]+) \|$", re.MULTILINE)


def budgets():
    """The largest allowed number by what it counts, of the section Budgets."""
    section = re.search(r"^## Budgets\n(.*?)(?=^## |\Z)", read("docs/development.md"), re.DOTALL | re.MULTILINE)[1]
    return {name: int(most.replace(",", "")) for name, most in _ROW.findall(section)}


def tracked():
    """The files that git has, without those that are deleted in the working tree."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not os.path.exists(os.path.join(ROOT, ".git")):
        pytest.skip("no git checkout")
    return [path for path in listed.stdout.splitlines() if os.path.exists(os.path.join(ROOT, path))]


def lines(paths):
    return sum(len(read(path).splitlines()) for path in paths)


def words(paths):
    """Words with a letter or a digit, code and tables included."""
    return sum(bool(re.search(r"\w", word)) for path in paths for word in read(path).split())


def counted():
    """What there is, under the names of the budgets."""
    files = tracked()
    python = [path for path in files if path.endswith(".py")]
    package = [path for path in python if path.startswith("tfbigbatch/")]
    pages = [path for path in files if path.endswith(".md") and path.startswith(("docs/", "results/"))]
    of_results = [path for path in pages if path.startswith(("docs/results/", "results/"))]
    results = [path for path in files if path.startswith("results/")]
    found = {
        "lines of the package": lines(package),
        "files of the package": len(package),
        "lines of tests": lines(path for path in python if path.startswith("tests/")),
        "lines of benchmarks": lines(path for path in python if path.startswith("benchmarks/")),
        "entries at the root": len({path.split("/")[0] for path in files}),
        "files of results": len(results),
        "bytes of results": sum(os.path.getsize(os.path.join(ROOT, path)) for path in results),
        "words of docs": words(set(pages) - set(of_results)),
        "words of results": words(of_results),
    }
    for path in package:
        room = path.split("/")[1] if path.count("/") > 1 else "the top"
        found[f"lines of {room}"] = found.get(f"lines of {room}", 0) + lines([path])
    return found


def test_nothing_is_above_its_budget():
    found, most = counted(), budgets()
    without = [f"{name} ({number:,}) has no budget" for name, number in found.items() if name not in most]
    over = [
        f"{name}: {number:,}, {number - most[name]:,} above {most[name]:,}"
        for name, number in found.items()
        if number > most.get(name, number)
    ]
    assert not over + without, "\n".join(["docs/development.md, Budgets:", *over, *without])


def test_each_budget_is_of_something():
    assert set(budgets()) - set(counted()) == set()
