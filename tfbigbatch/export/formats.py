"""The formats of an export. Importing this module does not import TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tfbigbatch.errors import InputError, nearest

FORMATS = {"keras": "model.keras", "saved_model": "saved_model", "weights": "model.weights.h5"}
"""The file or folder of each format."""
ABOUT = "export.json"
"""Says what an export holds; a folder with this file may be overwritten."""


class NotExportable(InputError):
    """A network that a format cannot hold; the message says why, and which formats can."""


def check_formats(formats: Iterable[str]) -> tuple[str, ...]:
    """The formats, each once; raises ValueError where one is unknown, or there is none."""
    found = tuple(dict.fromkeys(formats))
    for each in found or ("",):
        if each not in FORMATS:
            raise InputError(f"format {each!r} is unknown. {nearest(each, FORMATS)}")
    return found


def folder_of(directory: str, output: str | None, overwrite: bool) -> str:
    """The folder that an export of a run directory is written to.

    Raises:
      ValueError: it exists and may not be replaced.
    """
    folder = os.path.join(directory, "export") if output is None else output
    if not os.path.exists(folder) or (os.path.isdir(folder) and not os.listdir(folder)):
        return folder
    if not os.path.isfile(os.path.join(folder, ABOUT)):
        raise InputError(f"output {folder} exists and is not an export. Choose another folder.")
    if not overwrite:
        raise InputError(f"output {folder} holds an export. Choose another folder, or overwrite it (--overwrite).")
    return folder
