"""Uses existing TFRecords in place: indexes their records and finds their classes; nothing is copied."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import layouts
from tfbigbatch.data.records import index, preparation, tfrecord
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import open_regular

_NAME = re.compile(r"(.*-)?(train|validation)(\.tfrecords?)?-(?P<number>\d{5})-of-(?P<of>\d{5})(\.tfrecords?)?")
# tensorflow_datasets names the classes in this file beside the records.
_CLASSES = "label.labels.txt"
# Labels are consecutive: one above this is damage, and a list of classes up to it would fill memory.
_LARGEST_LABEL = 10_000_000
# Bytes of a class's name that are read.
_LONGEST_NAME = 1000


@dataclasses.dataclass(frozen=True)
class Keys:
    """The features of a layout.

    Attributes:
      layout: its name.
      image, label: the features of the encoded image and of the label.
      synset: the feature of the class's name, or None.
    """

    layout: str
    image: str
    label: str
    synset: str | None


KINDS = (
    Keys("TFRecords of ImageNet", "image/encoded", "image/class/label", "image/class/synset"),
    Keys("TFRecords of tensorflow_datasets", "image", "label", None),
)


@dataclasses.dataclass(frozen=True)
class Task:
    """A file to index: its path, and the Keys of its set."""

    path: str
    keys: Keys


def find(source: str) -> dict[str, list[str]] | None:
    """The paths of the TFRecords of 'train' and 'validation'; None where the folder has none.

    Raises:
      ValueError: a file of a set is missing, there are several sets, or none for training.
    """
    found: dict[str, list[str]] = {"train": [], "validation": []}
    for name in sorted(os.listdir(source)) if os.path.isdir(source) else ():
        match = _NAME.fullmatch(name)
        if match:
            names = found[match[2]]
            if int(match["number"]) != len(names):
                raise InputError(
                    f"{source} has {name}, but not the {match[2]} file of number {len(names):05d}; expected one whole "
                    "set of files for each split."
                )
            names.append(os.path.join(os.path.abspath(source), name))
    if not found["train"]:
        if found["validation"]:
            raise InputError(f"{source} has TFRecords for validation, but none for training.")
        return None
    for names in filter(None, found.values()):
        total = int(_NAME.fullmatch(os.path.basename(names[-1]))["of"])  # type: ignore[index]
        if len(names) != total:
            raise InputError(f"{source} has {len(names)} of {total} files such as {os.path.basename(names[-1])}.")
    return {split: names for split, names in found.items() if names}


def keys_of(path: str) -> Keys:
    """The Keys of a file's set, from its first record.

    Raises:
      ValueError: it has no record, or one of another layout.
    """
    features = next((features for _, features in _records(path, index.offsets(path)[:1])), {})
    for keys in KINDS:
        if {keys.image, keys.label} <= features.keys():
            return keys
    raise InputError(
        f"{path}: the first record has the features {', '.join(sorted(features)) or 'of no example'}; expected "
        + ", or ".join(f"{keys.image} and {keys.label}" for keys in KINDS)
        + "."
    )


def index_file(task: Task, tick: Callable[[], None]) -> dict[str, Any]:
    """The contents of a file: 'offsets' (int64 [records]), 'bytes', and 'names' of classes by stored label.

    A name is that of the first record with the label, '' for none.

    Raises:
      ValueError: the file is broken, or a record lacks the image or the label.
    """
    offsets, keys = index.offsets(task.path), task.keys
    names: dict[int, str] = {}
    for offset, features in _records(task.path, offsets):
        image, label = (next(iter(features.get(key, ())), None) for key in (keys.image, keys.label))
        if not isinstance(label, int) or not isinstance(image, bytes) or not image:
            raise InputError(f"{task.path}: the record at byte {offset} has no {keys.image} or no {keys.label}.")
        if label not in names:
            name = next(iter(features.get(keys.synset or "", ())), b"")
            names[label] = str(name[:_LONGEST_NAME], "utf-8", "replace") if isinstance(name, bytes) else ""
    tick()
    return {"offsets": offsets, "bytes": os.path.getsize(task.path), "names": names}


def classes_of(parts: Mapping[str, list[dict[str, Any]]], keys: Keys, folder: str) -> tuple[tuple[str, ...], int]:
    """The classes of a set's records.

    Args:
      parts: the results of `index_file`, by split.
      keys: Keys of the set.
      folder: of its files.

    Returns:
      (names, the stored label of class 0).

    Raises:
      ValueError: a label is out of range, or has two names.
    """
    merged: dict[int, str] = {}
    for result in (result for results in parts.values() for result in results):
        for label, name in result["names"].items():
            if merged.setdefault(label, name) != name:
                raise InputError(f"Label {label} has the classes {merged[label]!r} and {name!r}.")
    train = {label for result in parts["train"] for label in result["names"]}
    # The standard records count from 1; a set with label 0 counts from 0.
    offset = 0 if keys.synset is None or 0 in train else 1
    if max(train) > _LARGEST_LABEL:
        raise InputError(f"The train records have the label {max(train)}; expected {_LARGEST_LABEL:,} at most.")
    path = os.path.join(folder, _CLASSES)
    names = layouts.text_of(path, path).splitlines() if os.path.isfile(path) else []
    names = names or [merged.get(label) or str(label) for label in range(offset, max(train) + 1)]
    strange = [label for label in merged if not offset <= label < offset + len(names)]
    if strange:
        raise InputError(
            f"The records have the label {strange[0]}; expected {offset} to {offset + len(names) - 1}. A split without "
            "labels has to be put elsewhere."
        )
    if len(set(names)) < len(names):
        raise InputError(f"Two labels have the same class, {collections.Counter(names).most_common(1)[0][0]!r}.")
    return tuple(names), offset


def _records(path: str, offsets: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """(offset, values of the features by name) of each record."""
    with open_regular(path, None) as file:
        for offset in offsets.tolist():
            file.seek(offset)
            [length] = tfrecord.LENGTH.unpack_from(file.read(tfrecord.HEADER_BYTES))
            try:
                features = tfrecord.values(file.read(length))
            except ValueError as error:
                raise InputError(f"{path}: the record at byte {offset} is {error}.") from None
            yield offset, features


class Indexing(preparation.Preparation):
    """Uses TFRecords in place.

    Args:
      source: the folder that the user gave.
      records: paths by split, from `find`.

    Raises:
      ValueError: the first record is of an unknown layout.
    """

    kind, load, function = image_manifest.KIND, staticmethod(image_manifest.load), staticmethod(index_file)

    def __init__(self, source: str, records: dict[str, list[str]]) -> None:
        self.splits = self._records = records
        sizes = {path: os.path.getsize(path) for paths in records.values() for path in paths}
        # A file may be empty.
        self._first = next((path for path in records["train"] if sizes[path]), records["train"][0])
        self._keys = keys_of(self._first)
        rows = [(os.path.basename(path), size) for path, size in sizes.items()]
        self.fingerprint = preparation.fingerprint(source, self._keys.layout, {}, [], rows)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Task]:
        say(f"{self._keys.layout}: " + ", ".join(f"{len(each):,} {name} files" for name, each in self._records.items()))
        return [Task(path, self._keys) for paths in self._records.values() for path in paths]

    def save(self, folder: str, results: dict[Task, dict[str, Any]], say: Callable[[str], object]) -> None:
        found = {task.path: result for task, result in results.items()}
        parts = {split: [found[path] for path in paths] for split, paths in self._records.items()}
        classes, label_offset = classes_of(parts, self._keys, os.path.dirname(self._first))
        splits = {
            split: image_manifest.Split.of_files(
                split, paths, [part["offsets"] for part in parts[split]], [part["bytes"] for part in parts[split]]
            )
            for split, paths in self._records.items()
        }
        manifest = image_manifest.Manifest(classes, self._keys.image, self._keys.label, label_offset, splits)
        counts = {name: {"images": split.examples, "left_out": {}} for name, split in splits.items()}
        about = {"fixed": [], "left_out": [], "counts": counts, "unused": {}}
        image_manifest.save(folder, manifest, about={**self.fingerprint, **about})
