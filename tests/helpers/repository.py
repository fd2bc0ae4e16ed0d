"""The checkout that the tests are of."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*path):
    """The text of a file, by its path from the root."""
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()
