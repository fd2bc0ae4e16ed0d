"""Requirement files with the hashes of what the package index has of each pinned version.

    python tools/lock.py constraints.txt constraints-2.21.txt

Writes requirements-hashed.txt beside constraints.txt, and so on: a line for each pin with the SHA-256 of every wheel
for CPython 3.11 to 3.13 on Linux (x86-64, aarch64) and macOS (arm64), as the index states them; of the source archive
where a pin has no such wheel. The index is pip's own, as it is set up on this machine, by the JSON of its simple
interface (PEP 691). No file is downloaded. `make setup-hashed` installs from them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any

from packaging import specifiers, tags, utils, version

_PYTHONS = ((3, 11), (3, 12), (3, 13))
_PLATFORMS = re.compile(r"any|(many)?linux\w*_(x86_64|aarch64)|macosx_\w+_(arm64|universal2)")
_JSON = "application/vnd.pypi.simple.v1+json"
_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TRIES, _TIMEOUT = 3, 60.0  # of a page of the index, and its seconds


class LockError(Exception):
    """What is wrong, and what to do."""


def hashed_name(path: str) -> str:
    """Path of the requirement file of a constraints file: requirements-hashed-2.21.txt of constraints-2.21.txt.

    Raises:
      LockError: the file is not called constraints*.txt.
    """
    folder, name = os.path.split(path)
    if not re.fullmatch(r"constraints[\w.-]*\.txt", name):
        raise LockError(f"{path} is not called constraints*.txt.")
    return os.path.join(folder, name.replace("constraints", "requirements-hashed", 1))


def pins(path: str) -> list[tuple[str, str]]:
    """(package, version) of each line of a constraints file.

    Raises:
      LockError: the file cannot be read, or a line is no exact version.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [(number, line.strip()) for number, line in enumerate(file, 1)]
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"{path} cannot be read ({error}).") from None
    found = []
    for number, line in lines:
        if line and not line.startswith("#"):
            pin = _PIN.fullmatch(line)
            if not pin:
                raise LockError(f"{path}, line {number}: '{line}' is not NAME==VERSION.")
            found.append((pin[1], pin[2]))
    return found


def index_of_pip() -> str:
    """The package index that pip takes, of its settings or by default."""
    # pip's help names it in one line where the terminal is wide; it has no other public name.
    command = [sys.executable, "-m", "pip", "install", "--help"]
    said = subprocess.run(command, env={**os.environ, "COLUMNS": "9999"}, capture_output=True, text=True).stdout
    found = re.search(r"--index-url <url>.*?\(default (\S+?)\)", said)
    if not found or "****" in found[1]:
        raise LockError("pip does not say which index it takes. Name one with --index.")
    return found[1]


def files_of(index: str, name: str) -> list[dict[str, Any]]:
    """What the index has of a package: its files, each with 'filename', 'hashes' and, for its Pythons, 'python'.

    Raises:
      LockError: the index does not answer, or with something else.
    """
    address = f"{index.rstrip('/')}/{utils.canonicalize_name(name)}/"
    request = urllib.request.Request(address, headers={"Accept": _JSON})
    for left in reversed(range(_TRIES)):
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                files = json.load(answer)["files"]
            # Read here, so that what is missing is an error of the index.
            return [
                {
                    "filename": str(each["filename"]),
                    "hashes": dict(each["hashes"]),
                    "python": str(each.get("requires-python") or ""),
                }
                for each in files
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            if left and not isinstance(error, urllib.error.HTTPError):
                continue
            raise LockError(
                f"{address} did not answer with the JSON of a simple index ({type(error).__name__}: {error}). "
                "Look at the network, or name an index with --index."
            ) from None
    raise AssertionError


def _supported() -> dict[tuple[int, int], set[tuple[str, str]]]:
    """(interpreter, ABI) of the wheels that fit each Python."""
    return {
        python: {
            (tag.interpreter, tag.abi)
            for tag in (
                *tags.cpython_tags(python, [f"cp{python[0]}{python[1]}"], ["any"]),
                *tags.compatible_tags(python, f"cp{python[0]}{python[1]}", ["any"]),
            )
        }
        for python in _PYTHONS
    }


def _runs_on(required: str, python: tuple[int, int]) -> bool:
    """Whether a file is for the first release of a Python, by its Requires-Python; one that is no rule is for all."""
    try:
        return specifiers.SpecifierSet(required).contains(f"{python[0]}.{python[1]}.0")
    except specifiers.InvalidSpecifier:
        return True


def locked(name: str, pinned: str, files: Iterable[dict[str, Any]]) -> str:
    """The lines of a pin in a requirement file.

    Args:
      name, pinned: of the package, and its version.
      files: as from `files_of`.

    Returns:
      str: name and version, the Pythons that have a wheel where not all do, and a hash in each further line.

    Raises:
      LockError: the index has no file that fits, or states no hash.
    """
    supported, wheels, archives, pythons = _supported(), set(), set(), set()
    for file in files:
        filename = file["filename"]
        sha256 = file["hashes"].get("sha256", "")
        try:
            if filename.endswith(".whl"):
                _, found, _, fits = utils.parse_wheel_filename(filename)
                fitting = {
                    python
                    for python, pairs in supported.items()
                    for tag in fits
                    if _runs_on(file["python"], python)
                    and (tag.interpreter, tag.abi) in pairs
                    and _PLATFORMS.fullmatch(tag.platform)
                }
                kept = wheels if fitting else None
            else:
                _, found = utils.parse_sdist_filename(filename)
                fitting, kept = set(), archives
        except (utils.InvalidWheelFilename, utils.InvalidSdistFilename, version.InvalidVersion):
            continue  # Of a release of other times: eggs, installers.
        if kept is None or found != version.Version(pinned):
            continue
        if not _SHA256.fullmatch(sha256):
            raise LockError(f"the index states no SHA-256 of {filename}.")
        kept.add(sha256)
        pythons |= fitting
    if not wheels and not archives:
        raise LockError(f"the index has no file of {name} {pinned} for Python 3.11 to 3.13. Pin another version.")
    marker = ""
    if wheels and len(pythons) < len(_PYTHONS):
        marker = " or ".join(f'python_version == "{major}.{minor}"' for major, minor in sorted(pythons))
    first = f"{name}=={pinned}" + (f" ; {marker}" if marker else "")
    return " \\\n".join([first, *(f"    --hash=sha256:{each}" for each in sorted(wheels or archives))])


def lock(path: str, index: str) -> str:
    """The content of the requirement file of a constraints file.

    Raises:
      LockError: the file or the index has something else than expected.
    """
    name = os.path.basename(path)
    found = [locked(package, pinned, files_of(index, package)) for package, pinned in pins(path)]
    return "\n".join([f"# The pins of {name} with hashes, made by `make lock`: see docs/development.md.", *found, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constraints", nargs="+", help="Files of exact versions.")
    parser.add_argument("--index", help="Address of a package index, in place of pip's.")
    options = parser.parse_args(arguments)
    try:
        index = options.index or index_of_pip()
        made = {hashed_name(path): lock(path, index) for path in options.constraints}
    except LockError as error:
        sys.exit(f"Nothing was written: {error}")
    for path, content in made.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        print(f"{path}: {content.count('--hash=')} hashes")


if __name__ == "__main__":
    main()
