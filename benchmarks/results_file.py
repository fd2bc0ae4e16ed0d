"""The JSON file that a benchmark writes its numbers to."""

import os

from tfbigbatch.errors import InputError
from tfbigbatch.utils import files


def check(path):
    """Refuses a path in a missing folder, before anything is measured; None is no file.

    Raises:
      InputError: with the folder's name.
    """
    folder = os.path.dirname(path or "") or "."
    if not os.path.isdir(folder):
        raise InputError(f"--results={path}: there is no directory {folder}; make it first.")


def write(path, script, arguments, **content):
    """Writes the command that made the numbers, and the numbers; nothing without a path."""
    if path:
        files.write_json(path, {"command": " ".join(["python", f"benchmarks/{script}", *arguments]), **content})
        print(f"results      {path}")
