"""Parses label files: the class of each image, and the words for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.errors import InputError, nearest

# File names of lists of classes and their words.
WORDS = ("words.txt", "synset_words.txt", "LOC_synset_mapping.txt", "imagenet_metadata.txt")


def text_of(path: str, flag: str) -> str:
    """The text of a file that a flag names.

    Raises:
      ValueError: it cannot be read, or is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"--{flag}={path} cannot be read: {error.strerror}.") from None
    return text_files.decoded(content, f"--{flag}={path}").replace("\r\n", "\n")


def words(text: str | None) -> dict[str, str]:
    """The words of each class, from lines of a class and its words."""
    lines = (line.split(None, 1) for line in (text or "").splitlines())
    return {line[0]: line[1].strip() for line in lines if len(line) == 2}


def of_files(text: str, names: Sequence[str], numbers: Mapping[str, int], where: str) -> np.ndarray:
    """The label of each file.

    Args:
      text: one class a line, in the sorted order of the files' names; or lines of a file's name and its
        class, with anything after them, in any order; lines of other files are ignored.
      names: sorted names of files, with or without folders.
      numbers: labels by class.
      where: the text's source, for errors.

    Returns:
      int64 [files].

    Raises:
      ValueError: the lines do not match the files, or a class is not one of `numbers`.
    """
    rows = [line.split("\t") if "\t" in line else line.split() for line in text.splitlines() if line.strip()]
    if all(len(row) == 1 for row in rows):
        if len(rows) != len(names):
            raise InputError(
                f"{where} has {len(rows):,} lines of one class, but there are {len(names):,} validation images; "
                "expected a line for each, in the order of their names, or lines of NAME CLASS."
            )
        classes = [row[0].strip() for row in rows]
    else:
        by_name = {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}
        known = [by_name.get(name.rpartition("/")[2], by_name.get(name)) for name in names]
        missing = [name for name, found in zip(names, known) if found is None]
        if missing:
            raise InputError(
                f"{where} has no line for {len(missing):,} of {len(names):,} validation images, such as {missing[0]}."
            )
        classes = [found for found in known if found is not None]
    strange = [(name, found) for name, found in zip(names, classes) if found not in numbers]
    if strange:
        name, found = strange[0]
        hint = nearest(found, numbers) if len(numbers) <= 20 else f"They are names such as {next(iter(numbers))!r}."
        if found.isdigit():
            hint = "ImageNet's numbered ground truth counts in an order of its own: give the synsets (n01440764)."
        raise InputError(
            f"{where} gives {name} the class {found!r}, which no training image is of ({len(strange):,} such "
            f"images). {hint}"
        )
    return np.array([numbers[found] for found in classes], np.int64)
