"""The weights in a file of tf_keras; the description of a network beside them, which can name any code, is not read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator

import h5py

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.utils import files

_WEIGHTS = "model.weights.h5"
# Keras stores the weights as they are; what is packed to less than this fraction of its size is a trap for the disk.
_LEAST_PACKED = 1 / 16


def weights(path: str, folder: str) -> str:
    """The path of an HDF5 file with the weights, which has all values in itself: HDF5 can refer to any other file.

    Args:
      path: of a file that `tf_keras.Model.save` wrote as `.keras`, or `save_weights` as `.weights.h5`.
      folder: that the weights of a `.keras` file are unpacked into.

    Raises:
      ValueError: it is something else, damaged, or refers to another file.
    """
    try:
        found = _unpacked(path, os.path.join(folder, _WEIGHTS)) if path.endswith(".keras") else path
        with files.open_regular(found, None) as opened, h5py.File(opened, "r") as file:
            other = sorted(_outside(file))
    except InputError:
        raise
    # zipfile, zlib and h5py raise many kinds.
    except Exception as error:
        raise InputError(f"--init_from: {path} cannot be read as a file of Keras: {first_line(error)}") from None
    if other:
        raise InputError(
            f"--init_from: {path} takes {', '.join(other)[:200]} from another file; expected the values themselves."
        )
    return found


def _unpacked(path: str, to: str) -> str:
    with files.open_regular(path, None) as opened, zipfile.ZipFile(opened) as archive:
        values = archive.getinfo(_WEIGHTS)
        if values.compress_size < values.file_size * _LEAST_PACKED:
            raise ValueError("its parts unpack to far more than the file")
        with archive.open(values) as source, open(to, "wb") as target:
            left = values.file_size
            while left > 0 and (block := source.read(min(left, 2**20))):
                left -= len(block)
                target.write(block)
    return to


def _outside(group: h5py.Group) -> Iterator[str]:
    """The names in a group, and in those below it, whose values are elsewhere."""
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            yield f"{group.name}/{name}"
            continue
        found = group[name]
        if isinstance(found, h5py.Group):
            yield from _outside(found)
        elif isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
            yield f"{group.name}/{name}"
