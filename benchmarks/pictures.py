"""The JPEGs that the benchmarks of images read."""

import glob
import os

from tfbigbatch.errors import InputError


def read(source):
    """The bytes of every JPEG in the folder `source`, at any depth, in the order of their paths."""
    contents = []
    for path in sorted(glob.glob(os.path.join(glob.escape(source), "**"), recursive=True)):
        if path.lower().endswith((".jpg", ".jpeg")):
            with open(path, "rb") as file:
                contents.append(file.read())
    if not contents:
        raise InputError(f"--source={source} holds no JPEG. Give a folder of .jpg or .jpeg files.")
    return contents
