"""Finds the images of a folder tree and their classes, in the usual layouts of image datasets."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tfbigbatch.data import left_out, text_files
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.utils.files import read_bytes

UNDERSTOOD = """Understood are folders of
  train/CLASS/*.jpg, and validation images in the same shape in validation/, val/ or test/
  train/CLASS/*.JPEG and val/*.JPEG side by side, as ImageNet's unpacked tars (with --validation_labels=FILE)
  train/CLASS/images/*.JPEG with val/images and val/val_annotations.txt (tiny-imagenet)
  CLASS/*.jpg, or n01440764_NAME.JPEG side by side
  TFRecords train-00000-of-01024, validation-00000-of-00128 (image/encoded, image/class/label)
  TFRecords of tensorflow_datasets: imagenet2012-train.tfrecord-00000-of-01024 (image, label)
Unpack a .tar first, or let tensorflow_datasets read it."""
ENDINGS = (".jpeg", ".jpg", ".jfif", ".jpe", ".png", ".gif", ".bmp", ".webp")
"""The endings of files that are taken for images, in lower case."""
VALIDATION_SHARE = 0.1
"""Fraction of each class's images that is held out by default."""
_VALIDATION_FOLDERS = ("validation", "val", "test")
_FLAT = re.compile(r"(n\d{8})_[^/]+$")
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

    def read(self, index: int) -> bytes:
        """The content of a file; raises OSError."""
        return read_bytes(os.path.join(self.root, self.prefix + self.names[index]))

    def below(self, folder: str) -> Files:
        """The files of a folder within this one."""
        start = f"{folder}/"
        found = self.only([index for index, name in enumerate(self.names) if name.startswith(start)])
        names = [name.removeprefix(start) for name in found.names]
        return dataclasses.replace(found, prefix=self.prefix + start, names=names)

    def only(self, indices: Sequence[int] | np.ndarray) -> Files:
        """Some of the files."""
        return dataclasses.replace(self, names=[self.names[index] for index in indices], sizes=self.sizes[indices])


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
      splits: 'train' and 'validation'.
      held_out: whether the validation images were held out of the training images.
      unused: names of files that are not in a split, by reason.
    """

    layout: str
    classes: tuple[str, ...]
    splits: dict[str, Images]
    held_out: bool
    unused: dict[str, list[str]]


def find(
    source: str, *, validation_labels: str | None = None, validation_share: float | None = None, seed: int = 0
) -> Source:
    """Finds the images at a path.

    Args:
      source: a folder, in a layout of UNDERSTOOD except TFRecords.
      validation_labels: path of a file of the validation images' classes, see `labels_of`; None where the layout has
        them.
      validation_share: fraction of each class's images that is held out where the source has no validation images;
        None for VALIDATION_SHARE, and for one image of each class where that is none of any.
      seed: of the choice of held-out images.

    Raises:
      ValueError: the layout is unknown; or a class or a label is missing.
    """
    if not os.path.isdir(source):
        problem = "is no folder" if os.path.exists(source) else "does not exist"
        raise InputError(f"--source={source} {problem}. {UNDERSTOOD}")
    unused: dict[str, list[str]] = {}

    def kept(files: Files, reason: str, keep: Iterable[bool]) -> Files:
        """The files to keep; the others are noted as unused."""
        keep = list(keep)
        others = [files.prefix + name for name, keeps in zip(files.names, keep) if not keeps]
        if others:
            unused.setdefault(reason, []).extend(others)
        return files.only(np.flatnonzero(keep))

    whole = Files.of_folder(source)
    whole = kept(whole, left_out.HIDDEN, [not left_out.is_hidden(name) for name in whole.names])
    whole = _without_outer_folders(whole)
    tops = {name.split("/")[0] for name in whole.names if "/" in name}
    layout, train, validation, annotations = "images by class", whole, None, None
    if "train" in tops:
        layout, train = "train/ by class", whole.below("train")
        ours = ("train", *_VALIDATION_FOLDERS)
        strange = [is_image(name) and name.split("/")[0] not in ours for name in whole.names]
        kept(whole, "an image, but not in train/ or a validation folder", [not each for each in strange])
        for folder in sorted(tops & set(_VALIDATION_FOLDERS), key=_VALIDATION_FOLDERS.index):
            part = whole.below(folder)
            if validation is not None:
                kept(part, f"in {folder}/, beside other validation images", [False] * len(part.names))
                continue
            path = os.path.join(part.root, part.prefix, _ANNOTATIONS)
            annotations = text_of(path, path) if os.path.isfile(path) else None
            known = {name.split("/")[0] for name in train.names} & {name.split("/")[0] for name in part.names}
            if annotations is not None or known or validation_labels is not None:
                validation = part
                layout += f", {folder}/ by {_ANNOTATIONS}" if annotations else f", {folder}/"
            elif folder == "test":
                kept(part, "in test/, which has no classes", [False] * len(part.names))
            else:
                raise InputError(
                    f"The images in {folder}/ have no classes: expected {folder}/CLASS/*.jpg with classes of train/, "
                    f"or {folder}/{_ANNOTATIONS}. Or give their classes: --validation_labels=FILE."
                )
    elif tops & set(_VALIDATION_FOLDERS):
        raise InputError(f"--source={source} has {', '.join(sorted(tops))}, but no train/. {UNDERSTOOD}")

    no_image = f"not an image by name ({', '.join(ENDINGS)})"
    train = kept(train, no_image, map(is_image, train.names))
    train = kept(train, "not in the folder of a class", [_class(name) is not None for name in train.names])
    names = [str(_class(name)) for name in train.names]
    classes = tuple(sorted(set(names)))
    if len(classes) < 2:
        has = f"images of one class alone, {classes[0]!r}" if classes else "no images of classes"
        raise InputError(f"--source={source}: found {has}; expected two classes or more. {UNDERSTOOD}")
    numbers = {name: number for number, name in enumerate(classes)}
    splits, held_out = {"train": Images(train, np.array([numbers[name] for name in names], np.int64))}, False
    if validation is not None:
        validation = kept(validation, no_image, map(is_image, validation.names))
        labels = _validation_labels(validation.names, numbers, validation_labels, annotations)
        splits["validation"] = Images(validation, labels)
    elif validation_labels is not None:
        raise InputError(f"--validation_labels={validation_labels}, but --source={source} has no validation images.")
    elif held_out := validation_share != 0:
        splits = _held_out(splits["train"], len(classes), validation_share, seed)
    return Source(layout, classes, splits, held_out, unused)


def order(names: Sequence[str], seed: int, purpose: str) -> list[int]:
    """A pseudorandom order of names, as indices: a pure function of (names, seed, purpose) on any machine."""
    keys = [
        hashlib.blake2b(f"{seed}/{purpose}/{name}".encode(errors="surrogateescape"), digest_size=8) for name in names
    ]
    digests = [key.digest() for key in keys]
    return sorted(range(len(names)), key=digests.__getitem__)


def is_image(name: str) -> bool:
    """True if a file is taken for an image by its name."""
    return name.lower().endswith(ENDINGS) and not left_out.is_hidden(name)


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


def _without_outer_folders(whole: Files) -> Files:
    """The files below outer folders with a single entry, as unpacked archives often have."""
    while True:
        tops = {name.split("/")[0] for name in whole.names}
        if len(tops) != 1 or tops & {"train", *_VALIDATION_FOLDERS} or not all("/" in name for name in whole.names):
            return whole
        whole = whole.below(*tops)


def _class(name: str) -> str | None:
    """The class of a training image: its outermost folder, or the synset at the start of its name; else None."""
    folder, slash, _ = name.partition("/")
    match = _FLAT.match(name)
    return folder if slash else match[1] if match else None


def _validation_labels(
    names: Sequence[str], numbers: Mapping[str, int], flag: str | None, annotations: str | None
) -> np.ndarray:
    """The labels of the validation images: from the flag's file, from the layout's, or from their folders."""
    if flag is not None:
        where = f"--validation_labels={flag}"
        return labels_of(text_of(flag, where), names, numbers, where)
    if annotations is not None:
        return labels_of(annotations, names, numbers, _ANNOTATIONS)
    classes = [str(_class(name)) for name in names]
    strange = sorted({name for name in classes if name not in numbers})
    if strange:
        raise InputError(
            f"Validation images are of {len(strange)} classes without training images, such as {strange[0]!r}. "
            "Expected the classes of the training images."
        )
    return np.array([numbers[name] for name in classes], np.int64)


def _held_out(train: Images, classes: int, fraction: float | None, seed: int) -> dict[str, Images]:
    """The two splits, with a fraction of each class held out for validation: a pure function of names and seed."""
    counts = np.bincount(train.labels, minlength=classes)
    # Rounded, but never all images of a class.
    left = np.minimum(
        (counts * (VALIDATION_SHARE if fraction is None else fraction) + 0.5).astype(np.int64), counts - 1
    )
    if fraction is None and not left.any():
        left = np.minimum(1, counts - 1)
    if not left.any():
        raise InputError(
            f"Of {counts.min()} to {counts.max()} images a class none can be held out for validation by "
            f"--validation_share={VALIDATION_SHARE if fraction is None else fraction}. Give more images or a larger "
            "fraction; or 0, for no validation images at all."
        )
    held = np.zeros(len(train.labels), bool)
    for index in order(train.files.names, seed, "held out"):
        label = train.labels[index]
        held[index], left[label] = left[label] > 0, left[label] - 1
    return {
        name: Images(train.files.only(np.flatnonzero(chosen)), train.labels[chosen])
        for name, chosen in (("train", ~held), ("validation", held))
    }
