"""Writing a file whole or not at all."""

import os


def replace(path, write):
    """Writes a file as a whole: a reader, or a crash, never sees half of it.

    Args:
      path: where it goes.
      write: called with the open binary file.
    """
    part = f"{path}.part"
    with open(part, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
