"""Finds the images of a folder tree and their classes."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence

import numpy as np

from tfbigbatch.data import left_out, text_files
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import read_bytes

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
# The folders of the splits beside train/; of two for the same split the first is read.
_HELD_OUT = {"validation": ("validation", "val"), "test": ("test",)}
_ANNOTATIONS = "val_annotations.txt"
# Levels of folders: train/<class>/images/<file>, and two folders around it.
_DEEPEST = 6


@dataclasses.dataclass(frozen=True, eq=False)
class Files:
    """Files of a folder tree, by name.

    Attributes:
      root: the folder.
      prefix: of each name within the root: '' or 'folder/'.
      names: sorted paths with '/'.
      sizes: int64 [files], in bytes; -1 for a file without access.
    """

    root: str
    prefix: str
    names: list[str]
    sizes: np.ndarray

    @classmethod
    def of_folder(cls, folder: str) -> Files:
        """All files of a folder; links are followed.

        Raises:
          ValueError: it cannot be read.
        """
        found: list[tuple[str, int]] = []

        def walk(path: str, prefix: str, depth: int) -> None:
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        # A deeper folder is named as a file, which is no image.
                        if entry.is_dir() and depth < _DEEPEST:
                            walk(entry.path, f"{prefix}{entry.name}/", depth + 1)
                            continue
                        size = entry.stat().st_size
                    except OSError:
                        size = -1
                    found.append((prefix + entry.name, size))

        try:
            walk(folder, "", 1)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from None
        found.sort()
        return cls(folder, "", [name for name, _ in found], np.array([size for _, size in found], np.int64))

    def path(self, index: int) -> str:
        """The path of a file."""
        return os.path.join(self.root, self.prefix + self.names[index])

    def read(self, index: int) -> bytes:
        """The content of a file; raises OSError."""
        return read_bytes(self.path(index))

    def only(self, indices: Sequence[int] | np.ndarray, below: str = "") -> Files:
        """Some of the files; their names without the folder `below`, 'train/', that all are in."""
        names = [self.names[index].removeprefix(below) for index in indices]
        return Files(self.root, self.prefix + below, names, self.sizes[np.asarray(indices, np.int64)])


@dataclasses.dataclass(frozen=True, eq=False)
class Images:
    """The images of one split.

    Attributes:
      files: Files.
      labels: int64 [files], values in [0, classes).
    """

    files: Files
    labels: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The images of a source.

    Attributes:
      layout: its name.
      classes: sorted names of the classes that have training images.
      splits: 'train', and 'validation' and 'test' where there are such images.
      held_out: whether the validation images were held out of the training images.
      unused: names of files that are not in a split, by reason.
    """

    layout: str
    classes: tuple[str, ...]
    splits: dict[str, Images]
    held_out: bool
    unused: dict[str, list[str]]


def find(source: str, *, validation_labels: str | None = None, validation_share: float = 0.0, seed: int = 0) -> Source:
    """Finds the images at a path.

    Args:
      source: a folder, in a layout of UNDERSTOOD except TFRecords.
      validation_labels: path of a file of the validation images' classes, see `labels_of`; None where their folders or
        val_annotations.txt tell.
      validation_share: fraction of each class's images that is held out where the source has no validation images:
        one image or more, and never all; 0 for none.
      seed: of the choice of held-out images.

    Raises:
      ValueError: the layout is unknown; or a class or a label is missing.
    """
    if not os.path.isdir(source):
        raise InputError(f"{source} is no folder. {UNDERSTOOD}")
    whole = Files.of_folder(source)
    tops = {name.partition("/")[0] for name in whole.names if "/" in name}
    folders = {"train": ""}
    if "train" in tops:
        held_out = {split: [f"{name}/" for name in names if name in tops] for split, names in _HELD_OUT.items()}
        folders = {"train": "train/", **{split: found[0] for split, found in held_out.items() if found}}
    chosen, unused = _assigned(whole.names, folders)
    train = whole.only(chosen["train"], folders["train"])
    classes = tuple(sorted({name.partition("/")[0] for name in train.names}))
    if len(classes) < 2:
        has = f"images of one class alone, {classes[0]!r}" if classes else "no images of classes"
        raise InputError(f"{source}: found {has}; expected two classes or more. {UNDERSTOOD}")
    numbers = {name: number for number, name in enumerate(classes)}
    splits = {"train": Images(train, _labels_of_folders(train.names, numbers))}
    for split, folder in folders.items():
        if split == "train":
            continue
        part = whole.only(chosen[split], folder)
        annotations = os.path.join(source, folder, _ANNOTATIONS)
        flag = validation_labels if split == "validation" else None
        if file := flag or (annotations if os.path.isfile(annotations) else None):
            labels = labels_of(text_of(file, file), part.names, numbers, file)
        elif split == "test" and not numbers.keys() & {name.partition("/")[0] for name in part.names}:
            unused["without classes"] = [folder + name for name in part.names]
            continue
        else:
            labels = _labels_of_folders(part.names, numbers)
        splits[split] = Images(part, labels)
    if "validation" in splits or not validation_share:
        if validation_labels is not None and "validation" not in splits:
            raise InputError(f"--validation_labels={validation_labels}, but {source} has no validation images.")
        layout = ", ".join(folder or "images" for folder in folders.values())
        return Source(f"{layout} by class", classes, splits, False, unused)
    splits |= _held_out(splits["train"], len(classes), validation_share, seed)
    return Source(f"{folders['train'] or 'images'} by class", classes, splits, True, unused)


def _assigned(names: Sequence[str], folders: Mapping[str, str]) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """The indices of the images in each split's folder, and the names of the other files by reason."""
    chosen: dict[str, list[int]] = {split: [] for split in folders}
    unused: dict[str, list[str]] = collections.defaultdict(list)
    for index, name in enumerate(names):
        split = next((split for split, folder in folders.items() if name.startswith(folder)), None)
        if left_out.is_hidden(name):
            unused[left_out.HIDDEN].append(name)
        elif not is_image(name):
            unused[f"not an image by name ({', '.join(ENDINGS)})"].append(name)
        elif split is None or (split == "train" and "/" not in name.removeprefix(folders[split])):
            unused[f"in no folder of {', '.join(filter(None, folders.values())) or 'a class'}"].append(name)
        else:
            chosen[split].append(index)
    return chosen, unused


def order(names: Sequence[str], seed: int, purpose: str) -> list[int]:
    """A pseudorandom order of names, as indices: a pure function of (names, seed, purpose) on any machine."""
    digests = [
        hashlib.blake2b(f"{seed}/{purpose}/{name}".encode(errors="surrogateescape"), digest_size=8).digest()
        for name in names
    ]
    return sorted(range(len(names)), key=digests.__getitem__)


def is_image(name: str) -> bool:
    """True if a file is taken for an image by its name."""
    return name.lower().endswith(ENDINGS)


def text_of(path: str, where: str) -> str:
    """The text of a file; `where` names it in errors.

    Raises:
      ValueError: it cannot be read, or is not UTF-8.
    """
    try:
        content = read_bytes(path)
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or error}.") from None
    return text_files.decoded(content, where).replace("\r\n", "\n")


def labels_of(text: str, names: Sequence[str], numbers: Mapping[str, int], where: str) -> np.ndarray:
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
        classes = [row[0].strip() for row in rows]
        if len(classes) != len(names):
            raise InputError(
                f"{where} has {len(rows):,} lines of one class, but there are {len(names):,} validation images; "
                "expected a line for each, in the order of their names, or lines of NAME CLASS."
            )
    else:
        by_name = {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}
        classes = [by_name.get(os.path.basename(name), by_name.get(name, "")) for name in names]
    return _numbered(classes, names, numbers, where)


def _labels_of_folders(names: Sequence[str], numbers: Mapping[str, int]) -> np.ndarray:
    return _numbered([name.partition("/")[0] for name in names], names, numbers, "its folder")


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
        raise InputError("Each class has one image, so that none can be held out: --validation_share=0 holds out none.")
    held = np.zeros(len(train.labels), bool)
    for index in order(train.files.names, seed, "held out"):
        label = train.labels[index]
        held[index], left[label] = left[label] > 0, left[label] - 1
    return {
        name: Images(train.files.only(np.flatnonzero(chosen)), train.labels[chosen])
        for name, chosen in (("train", ~held), ("validation", held))
    }
