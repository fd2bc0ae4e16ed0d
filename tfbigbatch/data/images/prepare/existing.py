"""Uses existing TFRecords in place: indexes their records and finds their classes; nothing is copied."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.records import preparation, tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError

_NAME = re.compile(r"(.*-)?(train|validation)(\.tfrecords?)?-(?P<number>\d{5})-of-(?P<of>\d{5})(\.tfrecords?)?")
# tensorflow_datasets names the classes in this file beside the records.
_CLASSES = "label.labels.txt"
# Labels are consecutive: one above this is damage, and a list of classes up to it would fill memory.
_LARGEST_LABEL = 10_000_000
# Bytes of a class's name that are read.
_LONGEST_NAME = 1000


class Keys(NamedTuple):
    """The features of a layout: the encoded image, the label, and the class's name, or ''."""

    layout: str
    image: str
    label: str
    synset: str


KINDS = (
    Keys("TFRecords of ImageNet", "image/encoded", "image/class/label", "image/class/synset"),
    Keys("TFRecords of tensorflow_datasets", "image", "label", ""),
)


def find(source: str) -> dict[str, list[str]] | None:
    """The paths of the TFRecords of 'train' and 'validation'; None where the folder has none.

    Raises:
      ValueError: a file of a set is missing, there are several sets, or none for training.
    """
    found: dict[str, list[re.Match[str]]] = {"train": [], "validation": []}
    for name in sorted(os.listdir(source)) if os.path.isdir(source) else ():
        match = _NAME.fullmatch(name)
        if match:
            found[match[2]].append(match)
    if found["validation"] and not found["train"]:
        raise InputError(f"{source} has TFRecords for validation, but none for training.")
    for split, matches in found.items():
        if [int(match["number"]) for match in matches] != list(range(int(matches[0]["of"]) if matches else 0)):
            raise InputError(
                f"{source} has {len(matches)} {split} files such as {matches[-1][0]}; expected one whole set of files "
                "for each split."
            )
    folder = os.path.abspath(source)
    paths = {split: [os.path.join(folder, match[0]) for match in matches] for split, matches in found.items()}
    return {split: part for split, part in paths.items() if part} or None


def keys_of(path: str) -> Keys:
    """The Keys of a file's set, from its first record.

    Raises:
      ValueError: it has no record, or one of another layout.
    """
    features = next((features for _, features in tfrecord.values_at(path, tfrecord.offsets(path)[:1])), {})
    for keys in KINDS:
        if {keys.image, keys.label} <= features.keys():
            return keys
    raise InputError(
        f"{path}: the first record has the features {', '.join(sorted(features)) or 'of no example'}; expected "
        + ", or ".join(f"{keys.image} and {keys.label}" for keys in KINDS)
        + "."
    )


def index_file(keys: Keys, path: str, tick: Callable[[], None]) -> tuple[np.ndarray, dict[int, str]]:
    """The offsets of a file's records, int64 [records], and the names of their classes by stored label.

    A name is that of the first record with the label, '' for none.

    Raises:
      ValueError: the file is broken, or a record lacks the image or the label.
    """
    offsets = tfrecord.offsets(path)
    names: dict[int, str] = {}
    for offset, features in tfrecord.values_at(path, offsets):
        image, label = (next(iter(features.get(key, ())), None) for key in (keys.image, keys.label))
        if not isinstance(label, int) or not isinstance(image, bytes) or not image:
            raise InputError(f"{path}: the record at byte {offset} has no {keys.image} or no {keys.label}.")
        if label not in names:
            name = next(iter(features.get(keys.synset, ())), b"")
            names[label] = str(name[:_LONGEST_NAME], "utf-8", "replace") if isinstance(name, bytes) else ""
    tick()
    return offsets, names


def classes_of(found: Mapping[int, str], keys: Keys, folder: str) -> tuple[tuple[str, ...], int]:
    """The classes of a set's records, and the stored label of class 0.

    Args:
      found: the classes' names, or '', by stored label.
      keys: Keys of the set.
      folder: of its files.

    Raises:
      ValueError: a label is out of range.
    """
    # The standard records count from 1; a set with label 0 counts from 0.
    first, last = 0 if not keys.synset or 0 in found else 1, max(found)
    path = os.path.join(folder, _CLASSES)
    names = text_files.read(path).splitlines() if os.path.isfile(path) else []
    if not names and last <= _LARGEST_LABEL:
        names = [found.get(label) or str(label) for label in range(first, last + 1)]
    if min(found) < first or last >= first + len(names):
        raise InputError(
            f"The records have the labels {min(found)} to {last}; expected {first} to "
            f"{first + len(names) - 1 if names else _LARGEST_LABEL}. A split without labels has to be put elsewhere."
        )
    return tuple(names), first


class Indexing(preparation.Preparation):
    """The preparation of a folder that refers to existing TFRecords, of `find`; its tasks are their paths.

    Raises ValueError where the first record is of an unknown layout.
    """

    kind, load = image_manifest.KIND, staticmethod(image_manifest.load)

    def __init__(self, source: str, records: dict[str, list[str]]) -> None:
        self._records = records
        sizes = {path: os.path.getsize(path) for paths in records.values() for path in paths}
        # A file may be empty.
        self._keys = keys_of(next((path for path in records["train"] if sizes[path]), records["train"][0]))
        rows = [(os.path.basename(path), size) for path, size in sizes.items()]
        self.fingerprint = preparation.fingerprint(source, self._keys.layout, {}, [], rows)

    @property
    def function(self) -> Callable[[str, Callable[[], None]], tuple[np.ndarray, dict[int, str]]]:
        return functools.partial(index_file, self._keys)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[str]:
        say(f"{self._keys.layout}: " + ", ".join(f"{len(each):,} {name} files" for name, each in self._records.items()))
        return [path for paths in self._records.values() for path in paths]

    def save(self, folder: str, results: dict[str, tuple[np.ndarray, dict[int, str]]]) -> None:
        names: dict[int, str] = {}
        for _, found in results.values():
            for label, name in found.items():
                if names.setdefault(label, name) != name:
                    raise InputError(f"Label {label} has the classes {names[label]!r} and {name!r}.")
        classes, label_offset = classes_of(names, self._keys, os.path.dirname(self._records["train"][0]))
        splits = {
            split: Split.of_files(split, paths, [results[path][0] for path in paths])
            for split, paths in self._records.items()
        }
        manifest = image_manifest.Manifest(classes, self._keys.image, self._keys.label, label_offset, splits)
        image_manifest.save(folder, manifest, {**self.fingerprint, "fixed": [], "left_out": [], "unused": {}})
