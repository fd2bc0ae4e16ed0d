"""Finds the images of a source and their classes, in the usual layouts of image datasets."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tfbigbatch.data import left_out
from tfbigbatch.data.images.prepare import labels, tree
from tfbigbatch.errors import InputError

UNDERSTOOD = """Understood are, as a folder or as a .tar or .tar.gz of it:
  train/CLASS/*.jpg, and validation images in the same shape in validation/, val/ or test/
  train/CLASS/images/*.JPEG with val/images and val/val_annotations.txt (tiny-imagenet)
  CLASS/*.jpg, or n01440764_NAME.JPEG side by side
and as a folder:
  ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar (with --validation_labels=FILE)
  TFRecords train-00000-of-01024, validation-00000-of-00128 (image/encoded, image/class/label)
  TFRecords of tensorflow_datasets: imagenet2012-train.tfrecord-00000-of-01024 (image, label)"""
_VALIDATION_FOLDERS = ("validation", "val", "test")
ENDINGS = (".jpeg", ".jpg", ".jfif", ".jpe", ".png", ".gif", ".bmp", ".webp")
"""Of the files that are taken for images, in lower case."""
_FLAT = re.compile(r"(n\d{8})_[^/]+$")
_ANNOTATIONS = "val_annotations.txt"


VALIDATION_SHARE = 0.1
"""Fraction of each class's images that is held out by default."""


@dataclasses.dataclass(frozen=True, eq=False)
class Images:
    """The images of one split.

    Attributes:
      files: tree.Tree of these images.
      labels: int64 [files], values in [0, classes).
    """

    files: tree.Tree
    labels: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The images of a source.

    Attributes:
      layout: its name.
      classes: sorted names of the classes that have training images.
      texts: what each class is called in words; '' where unknown.
      splits: 'train' and 'validation'.
      held_out: whether the validation images were held out of the training images.
      unused: names of files that are not in a split, by reason.
    """

    layout: str
    classes: tuple[str, ...]
    texts: tuple[str, ...]
    splits: dict[str, Images]
    held_out: bool
    unused: dict[str, list[str]]


@dataclasses.dataclass
class _Found:
    """The parts of a source: Trees of its training and validation images, and the texts beside them."""

    layout: str
    train: tree.Tree
    validation: tree.Tree | None
    annotations: str | None  # the file of the validation images' classes, if the layout has one
    words: str | None
    unused: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def leave(self, reason: str, names: Iterable[str]) -> None:
        """Notes unused files."""
        names = list(names)
        if names:
            self.unused.setdefault(reason, []).extend(names)


def find(
    source: str,
    unpacked: str,
    *,
    validation_labels: str | None = None,
    words: str | None = None,
    validation_share: float | None = None,
    seed: int = 0,
) -> Source:
    """Finds the images at a path.

    Args:
      source: a folder, a tar or a tar.gz, in a layout of UNDERSTOOD except TFRecords.
      unpacked: path that a compressed tar is unpacked to.
      validation_labels: path of a file of the validation images' classes, see labels.of_files; None where the
        layout has them.
      words: path of a file of lines of a class and its words; None looks for one in the source.
      validation_share: fraction of each class's images that is held out where the source has no validation images;
        None for VALIDATION_SHARE, and for one image of each class where that is none of any.
      seed: of the choice of held-out images.

    Raises:
      ValueError: the layout is unknown; a class or a label is missing; or a file is incomplete.
    """
    found = _tars(source) or _folders(source, unpacked, validation_labels is not None)
    train = _images(found, found.train)
    classed = [_class(name) for name in train.names]
    found.leave("not in the folder of a class", [name for name, of in zip(train.names, classed) if of is None])
    train = train.only([index for index, name in enumerate(classed) if name is not None])
    names = [name for name in classed if name is not None]
    classes = tuple(sorted(set(names)))
    if len(classes) < 2:
        has = f"images of one class alone, {classes[0]!r}" if classes else "no images of classes"
        raise InputError(f"--source={source}: found {has}; expected two classes or more. {UNDERSTOOD}")
    numbers = {name: number for number, name in enumerate(classes)}
    splits, held_out = {"train": Images(train, np.array([numbers[name] for name in names], np.int64))}, False
    if found.validation is not None:
        splits["validation"] = _validation(found, found.validation, numbers, validation_labels)
    elif validation_labels is not None:
        raise InputError(f"--validation_labels={validation_labels}, but --source={source} has no validation images.")
    elif held_out := validation_share != 0:
        splits = _held_out(splits["train"], len(classes), validation_share, seed)
    texts = labels.words(found.words if words is None else labels.text_of(words, "words"))
    return Source(found.layout, classes, tuple(texts.get(name, "") for name in classes), splits, held_out, found.unused)


def order(names: Sequence[str], seed: int, purpose: str) -> list[int]:
    """A pseudorandom order of names, as indices: a pure function of (names, seed, purpose) on any machine."""
    keys = [
        hashlib.blake2b(f"{seed}/{purpose}/{name}".encode(errors="surrogateescape"), digest_size=8) for name in names
    ]
    digests = [key.digest() for key in keys]
    return sorted(range(len(names)), key=digests.__getitem__)


def _tars(source: str) -> _Found | None:
    """The _Found of ImageNet's own tars; None where the source is not a folder of them."""
    if not os.path.isdir(source):
        return None
    tars = {split: glob.glob(os.path.join(glob.escape(source), f"*_{split}.tar")) for split in ("train", "val")}
    if not tars["train"]:
        return None
    for split, paths in tars.items():
        if len(paths) > 1:
            raise InputError(f"--source={source} has several *_{split}.tar: {', '.join(sorted(paths))}. Leave one.")
    train, links = tree.of_tar(tars["train"][0])
    found = _Found("ImageNet's tars", train, None, None, None)
    if tars["val"]:
        found.validation, more = tree.of_tar(tars["val"][0])
        links += more
    found.leave("neither a file nor a folder in the tar", links)
    for name in labels.WORDS:
        path = os.path.join(source, name)
        if found.words is None and os.path.isfile(path):
            found.words = labels.text_of(path, "words")
    return found


def _folders(source: str, unpacked: str, labels_given: bool) -> _Found:
    """The _Found of folders, or of a tar of them."""
    links: list[str] = []
    if os.path.isdir(source):
        whole = tree.of_folder(source)
    elif os.path.isfile(source):
        path = source
        if tree.is_gzip(source):
            path = unpacked
            tree.unpack(source, path)
        whole, links = tree.of_tar(path)
    else:
        raise InputError(f"--source={source} does not exist. {UNDERSTOOD}")
    hidden = {index for index, name in enumerate(whole.names) if left_out.is_hidden(name)}
    hidden_names = [whole.names[index] for index in sorted(hidden)]
    whole = _without_outer_folders(whole.only([index for index in range(len(whole.names)) if index not in hidden]))
    tops = {name.split("/")[0] for name in whole.names if "/" in name}
    words = next((whole.text(name) for name in labels.WORDS if name in whole.indices), None)
    found = _Found("images by class", whole, None, None, words)
    found.leave(left_out.HIDDEN, hidden_names)
    found.leave("neither a file nor a folder in the tar", links)
    if "train" in tops:
        found.layout, found.train = "train/ by class", whole.below("train")
        _find_validation(found, whole, tops, labels_given)
        ours = ("train", *_VALIDATION_FOLDERS)
        others = [name for name in whole.names if name.split("/")[0] not in ours and is_image(name)]
        found.leave("an image, but not in train/ or a validation folder", others)
    elif tops & set(_VALIDATION_FOLDERS):
        raise InputError(f"--source={source} has {', '.join(sorted(tops))}, but no train/. {UNDERSTOOD}")
    return found


def _find_validation(found: _Found, whole: tree.Tree, tops: set[str], labels_given: bool) -> None:
    """Adds the first folder of validation images that have classes."""
    for folder in _VALIDATION_FOLDERS:
        if folder not in tops:
            continue
        part = whole.below(folder)
        if found.validation is not None:
            found.leave(f"in {folder}/, beside other validation images", [f"{folder}/{name}" for name in part.names])
            continue
        annotations = part.text(_ANNOTATIONS)
        known = {name.split("/")[0] for name in found.train.names} & {name.split("/")[0] for name in part.names}
        if annotations is not None or known or labels_given:
            found.validation, found.annotations = part, annotations
            found.layout += f", {folder}/ by {_ANNOTATIONS}" if annotations else f", {folder}/"
        elif folder == "test":
            found.leave("in test/, which has no classes", [f"test/{name}" for name in part.names])
        else:
            raise InputError(
                f"The images in {folder}/ have no classes: expected {folder}/CLASS/*.jpg with classes of train/, or "
                f"{folder}/{_ANNOTATIONS}. Or give their classes: --validation_labels=FILE."
            )


def _without_outer_folders(whole: tree.Tree) -> tree.Tree:
    """The Tree below outer folders with a single entry, as archives often have."""
    while True:
        tops = {name.split("/")[0] for name in whole.names}
        if len(tops) != 1 or tops & {"train", *_VALIDATION_FOLDERS} or not all("/" in name for name in whole.names):
            return whole
        whole = whole.below(*tops)


def _images(found: _Found, part: tree.Tree) -> tree.Tree:
    """The Tree of the files with an image's name; the others are unused."""
    images = [index for index, name in enumerate(part.names) if is_image(name)]
    kept = set(images)
    found.leave(
        f"not an image by name ({', '.join(ENDINGS)})",
        [part.prefix + name for index, name in enumerate(part.names) if index not in kept],
    )
    return part.only(images)


def is_image(name: str) -> bool:
    """Whether a file is taken for an image by its name."""
    return name.lower().endswith(ENDINGS) and not left_out.is_hidden(name)


def _class(name: str) -> str | None:
    """The class of a training image: its outermost folder, or the synset at the start of its name; else None."""
    folder, slash, _ = name.partition("/")
    if slash:
        return folder
    match = _FLAT.match(name)
    return match[1] if match else None


def _validation(
    found: _Found, validation: tree.Tree, numbers: Mapping[str, int], validation_labels: str | None
) -> Images:
    """The validation Images; their classes come from the flag, from the layout's file, or from their folders."""
    files = _images(found, validation)
    text: str | None
    if validation_labels is not None:
        where, text = f"--validation_labels={validation_labels}", labels.text_of(validation_labels, "validation_labels")
    else:
        where, text = _ANNOTATIONS, found.annotations
    if text is not None:
        return Images(files, labels.of_files(text, files.names, numbers, where))
    if not any("/" in name for name in files.names):
        raise InputError(
            f"The classes of the {len(files.names):,} validation images are not known. Give them: "
            "--validation_labels=FILE, one class a line in the order of the images' names, or lines of NAME CLASS."
        )
    names = [str(_class(name)) for name in files.names]
    strange = sorted({name for name in names if name not in numbers})
    if strange:
        raise InputError(
            f"Validation images are of {len(strange)} classes without training images, such as {strange[0]!r}. "
            "Expected the classes of the training images."
        )
    return Images(files, np.array([numbers[name] for name in names], np.int64))


def _held_out(train: Images, classes: int, fraction: float | None, seed: int) -> dict[str, Images]:
    """Splits off a fraction of each class for validation, a pure function of names and seed."""
    counts = np.bincount(train.labels, minlength=classes)
    # Rounded, but never all images of a class.
    left = np.minimum(
        (counts * (VALIDATION_SHARE if fraction is None else fraction) + 0.5).astype(np.int64), counts - 1
    )
    if fraction is None and not left.any():
        left = np.minimum(1, counts - 1)
    if counts.max() < 2:
        raise InputError(
            "The source has one image of each class: none is left to train on where it is held out for validation. "
            "Give more images of each class; or --validation_share=0, for no validation images at all."
        )
    if not left.any():
        raise InputError(
            f"--validation_share={fraction} of {counts.min()} to {counts.max()} images a class holds out none. "
            "Give a larger fraction; or 0, for no validation images at all."
        )
    held = np.zeros(len(train.labels), bool)
    for index in order(train.files.names, seed, "held out"):
        label = train.labels[index]
        held[index], left[label] = left[label] > 0, left[label] - 1
    return {
        name: Images(train.files.only(np.flatnonzero(chosen)), train.labels[chosen])
        for name, chosen in (("train", ~held), ("validation", held))
    }
