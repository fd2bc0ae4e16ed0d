"""Finds the images of a folder tree and their classes."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.data.records import preparation
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import reading_errors

UNDERSTOOD = """Understood are folders of
  train/CLASS/*.jpg, and validation images in the same shape in validation/ or val/
  train/CLASS/*.JPEG and val/*.JPEG side by side, as ImageNet's unpacked tars (with --validation_labels=FILE)
  train/CLASS/images/*.JPEG with val/images and val/val_annotations.txt (tiny-imagenet)
  CLASS/*.jpg
  TFRecords train-00000-of-01024, validation-00000-of-00128 (image/encoded, image/class/label)
  TFRecords of tensorflow_datasets: imagenet2012-train.tfrecord-00000-of-01024 (image, label)
Unpack a .tar first, or let tensorflow_datasets read it."""
ENDINGS = (".jpeg", ".jpg", ".jfif", ".jpe", ".png", ".gif", ".bmp", ".webp")
"""The endings of files that are taken for images, in lower case."""
# The folders of the splits beside train/; of two for the same split the last is read.
_FOLDERS = {"val": "validation", "validation": "validation", "test": "test"}
_ANNOTATIONS = "val_annotations.txt"
# Levels of folders: train/<class>/images/<file>, and two folders around it.
_DEEPEST = 6


@dataclasses.dataclass(frozen=True, eq=False)
class Images:
    """The images of one split, or a part of them.

    Attributes:
      source: the folder with all splits.
      folder: the split's folder in it: '' or 'train/'.
      names: sorted paths in the split's folder, with '/'.
      sizes: int64 [images], in bytes; -1 for a file without access.
      labels: int64 [images], values in [0, classes).
    """

    source: str
    folder: str
    names: list[str]
    sizes: np.ndarray
    labels: np.ndarray

    def path(self, index: int) -> str:
        """The path of an image."""
        return os.path.join(self.source, self.folder + self.names[index])

    def only(self, indices: np.ndarray) -> Images:
        """Some of the images."""
        names = [self.names[index] for index in indices]
        return Images(self.source, self.folder, names, self.sizes[indices], self.labels[indices])


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The images of a source.

    Attributes:
      layout: its name.
      classes: sorted names of the classes that have training images.
      splits: 'train', and 'validation' and 'test' where there are such images.
      unused: names of files that are not in a split, by reason.
    """

    layout: str
    classes: tuple[str, ...]
    splits: dict[str, Images]
    unused: dict[str, list[str]]


def find(
    source: str, *, validation_labels: str | None = None, validation_fraction: float = 0.0, seed: int = 0
) -> Source:
    """Finds the images at a path.

    Args:
      source: a folder, in a layout of UNDERSTOOD except TFRecords.
      validation_labels: path of a file of the validation images' classes, see `labels_of`; None where their folders or
        val_annotations.txt tell.
      validation_fraction: fraction of each class's images that is held out where the source has no validation images:
        one image or more, and never all; 0 for none.
      seed: of the choice of held-out images.

    Raises:
      ValueError: the layout is unknown; or a class or a label is missing.
    """
    if not os.path.isdir(source):
        raise InputError(f"{source} is no folder. {UNDERSTOOD}")
    files = _files_of(source)
    tops = {name.partition("/")[0] for name in files if "/" in name}
    folders = {"train": ""}
    if "train" in tops:
        folders = {"train": "train/", **{split: f"{top}/" for top, split in _FOLDERS.items() if top in tops}}
    chosen, unused = _assigned(files, folders)
    classes = tuple(sorted({name.partition("/")[0] for name in chosen["train"]}))
    if len(classes) < 2:
        has = f"images of one class alone, {classes[0]!r}" if classes else "no images of classes"
        raise InputError(f"{source}: found {has}; expected two classes or more. {UNDERSTOOD}")
    if validation_labels is not None and "validation" not in folders:
        raise InputError(f"--validation_labels={validation_labels}, but {source} has no validation images.")
    numbers = {name: number for number, name in enumerate(classes)}
    splits = {}
    for split, folder in folders.items():
        names, annotations = chosen[split], os.path.join(source, folder, _ANNOTATIONS)
        by_folder = [name.partition("/")[0] for name in names]
        if split == "validation" and validation_labels is not None:
            labels = labels_of(validation_labels, names, numbers)
        elif split != "train" and os.path.isfile(annotations):
            labels = labels_of(annotations, names, numbers)
        elif split == "test" and not numbers.keys() & set(by_folder):
            unused["without classes"] = [folder + name for name in names]
            continue
        else:
            labels = _numbered(by_folder, names, numbers, "its folder")
        sizes = np.array([files[folder + name] for name in names], np.int64)
        splits[split] = Images(source, folder, names, sizes, labels)
    if "validation" not in splits and validation_fraction:
        splits |= _held_out(splits["train"], len(classes), validation_fraction, seed)
    return Source(f"{', '.join(folder or 'images' for folder in folders.values())} by class", classes, splits, unused)


def _files_of(folder: str) -> dict[str, int]:
    """The sizes of all files of a folder by their sorted names; links are followed."""
    found: dict[str, int] = {}

    def walk(path: str, prefix: str, depth: int) -> None:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    # A deeper folder is named as a file, which is no image.
                    if entry.is_dir() and depth < _DEEPEST:
                        walk(entry.path, f"{prefix}{entry.name}/", depth + 1)
                        continue
                    found[prefix + entry.name] = entry.stat().st_size
                except OSError:
                    found[prefix + entry.name] = -1

    with reading_errors(folder):
        walk(folder, "", 1)
    return dict(sorted(found.items()))


def _assigned(names: Iterable[str], folders: Mapping[str, str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The names of the images in each split's folder, without it, and those of the other files by reason."""
    chosen: dict[str, list[str]] = {split: [] for split in folders}
    unused: dict[str, list[str]] = collections.defaultdict(list)
    for name in names:
        split = next((split for split, folder in folders.items() if name.startswith(folder)), None)
        inside = name.removeprefix(folders[split]) if split else ""
        if preparation.is_hidden(name):
            unused[preparation.HIDDEN].append(name)
        elif not name.lower().endswith(ENDINGS):
            unused[f"not an image by name ({', '.join(ENDINGS)})"].append(name)
        elif split is None or (split == "train" and "/" not in inside):
            unused[f"in no folder of {', '.join(filter(None, folders.values())) or 'a class'}"].append(name)
        else:
            chosen[split].append(inside)
    return chosen, unused


def order(names: Sequence[str], seed: int, purpose: str) -> np.ndarray:
    """A pseudorandom order of names, as indices: a pure function of (names, seed, purpose) on any machine."""
    digests = [
        hashlib.blake2b(f"{seed}/{purpose}/{name}".encode(errors="surrogateescape"), digest_size=8).digest()
        for name in names
    ]
    return np.array(sorted(range(len(names)), key=digests.__getitem__), np.int64)


def labels_of(path: str, names: Sequence[str], numbers: Mapping[str, int]) -> np.ndarray:
    """The label of each image, by a file.

    Args:
      path: of a text with one class a line, in the sorted order of the images' names; or with lines of an image's name
        and its class, with anything after them, in any order, where lines of other images are ignored.
      names: sorted names of images, with or without folders.
      numbers: labels by class.

    Returns:
      int64 [images].

    Raises:
      ValueError: it cannot be read, the lines do not match the images, or a class is not one of `numbers`.
    """
    lines = text_files.read(path).splitlines()
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines if line.strip()]
    if all(len(row) == 1 for row in rows):
        classes = [row[0].strip() for row in rows]
        if len(classes) != len(names):
            raise InputError(
                f"{path} has {len(rows):,} lines of one class, but there are {len(names):,} validation images; "
                "expected a line for each, in the order of their names, or lines of NAME CLASS."
            )
    else:
        by_name = {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}
        classes = [by_name.get(os.path.basename(name), by_name.get(name, "")) for name in names]
    return _numbered(classes, names, numbers, path)


def _numbered(classes: Sequence[str], names: Sequence[str], numbers: Mapping[str, int], where: str) -> np.ndarray:
    """The labels of classes; raises ValueError for a class without training images."""
    for name, found in zip(names, classes):
        if found not in numbers:
            raise InputError(
                f"The image {name} is of the class {found!r} by {where}; expected a class of the training images, such "
                f"as {next(iter(numbers))!r}. Where the validation images lie side by side, give a file with the class "
                "of each: --validation_labels=FILE. (ImageNet's numbers count otherwise: give synsets, n01440764.)"
            )
    return np.array([numbers[found] for found in classes], np.int64)


def _held_out(train: Images, classes: int, fraction: float, seed: int) -> dict[str, Images]:
    """The two splits, with a fraction of each class held out for validation: a pure function of names and seed."""
    counts = np.bincount(train.labels, minlength=classes)
    left = np.minimum(np.maximum((counts * fraction + 0.5).astype(np.int64), 1), counts - 1)
    if not left.any():
        raise InputError(
            "Each class has one image, so that none can be held out: --validation_fraction=0 holds out none."
        )
    held = np.zeros(len(train.labels), bool)
    for index in order(train.names, seed, "held out"):
        label = train.labels[index]
        held[index], left[label] = left[label] > 0, left[label] - 1
    return {"train": train.only(np.flatnonzero(~held)), "validation": train.only(np.flatnonzero(held))}
