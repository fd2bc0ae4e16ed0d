"""Reading NumPy's files that others may have written or damaged: arrays of numbers alone, and one error for all faults.

Nothing is unpickled: an array of objects could hold code.
"""

import numpy as np

from tfbigbatch.errors import InputError


def read(path):
    """The array in a .npy file.

    Raises:
      ValueError: the file cannot be read, is not one, or holds objects.
    """
    return _loaded(path, np.ndarray, lambda array: array)


def read_named(path, names):
    """The arrays of these names in a .npz file, as a list.

    Raises:
      ValueError: as `read`, or one is missing.
    """
    return _loaded(path, np.lib.npyio.NpzFile, lambda arrays: [arrays[name] for name in names])


def _loaded(path, kind, take):
    try:
        found = np.load(path, allow_pickle=False)
        try:
            if not isinstance(found, kind):
                raise ValueError(f"it holds a {type(found).__name__}")
            return take(found)
        finally:
            if isinstance(found, np.lib.npyio.NpzFile):
                found.close()
    # The parsers of NumPy's header, of zip archives and of what is packed in them raise dozens of kinds of errors.
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error or type(error).__name__})") from None
