r"""Paths for TensorFlow, which reads the path of a checkpoint as a pattern: in `lr=[0.1]` or `a\b` it finds none."""

from __future__ import annotations

import atexit
import glob
import os
import re
import shutil
import tempfile


def literal_path(path: str) -> str:
    """A path to the files of a checkpoint that holds no pattern characters, through symbolic links of this process.

    Args:
      path: of a checkpoint that is there, without the endings of its files.
    """
    if not re.search(r"[*?\[\\]", path):
        return path
    made = tempfile.mkdtemp(prefix="tfbigbatch-paths-")
    # It removes the links, not what they lead to.
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for file in glob.glob(f"{glob.escape(os.path.abspath(path))}.*"):
        os.symlink(file, os.path.join(made, "checkpoint" + file[len(os.path.abspath(path)) :]))
    return os.path.join(made, "checkpoint")
