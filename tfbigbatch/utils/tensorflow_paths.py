r"""Paths for TensorFlow, which takes the path of a checkpoint for a pattern: in `lr=[0.1]` or `a\b` it finds none."""

from __future__ import annotations

import atexit
import functools
import glob
import os
import re
import shutil
import tempfile

_OF_PATTERNS = re.compile(r"[*?\[\\]")


def literal_path(path: str) -> str:
    """A path to the same files that holds no pattern characters, through symbolic links of this process.

    Args:
      path: of a folder, which may not exist yet; or of a checkpoint, without the endings of its files.
    """
    if not _OF_PATTERNS.search(path):
        return path
    folder, name = os.path.split(os.path.abspath(path))
    if not _OF_PATTERNS.search(name):
        return os.path.join(_link(folder), name)
    if os.path.isdir(path):
        return _link(os.path.join(folder, name))
    made = _scratch()
    for file in glob.glob(f"{glob.escape(os.path.join(folder, name))}.*"):
        os.symlink(file, os.path.join(made, "checkpoint" + os.path.basename(file)[len(name) :]))
    return os.path.join(made, "checkpoint")


@functools.cache
def _link(folder: str) -> str:
    link = os.path.join(_scratch(), "folder")
    os.symlink(folder, link)
    return link


def _scratch() -> str:
    made = tempfile.mkdtemp(prefix="tfbigbatch-paths-")
    # It removes the links, not what they lead to.
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
