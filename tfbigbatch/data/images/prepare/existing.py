"""Uses existing TFRecords in place: indexes their records and finds their classes; nothing is copied."""

from __future__ import annotations

import collections
import dataclasses
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import layouts
from tfbigbatch.data.records import index, preparation, tfrecord
from tfbigbatch.errors import InputError

_NAME = re.compile(
    r"(?P<set>.*-)?(?P<split>train|validation|val|test)(\.tfrecords?)?-(?P<number>\d{5})-of-(?P<of>\d{5})(\.tfrecords?)?"
)
_SPLITS = {"train": "train", "validation": "validation", "val": "validation"}
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
    folder = _innermost(source)
    if folder is None:
        return None
    sets: dict[tuple[str, str | None, str, int], dict[int, str]] = collections.defaultdict(dict)
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match and (split := _SPLITS.get(match["split"])):
            sets[split, match["set"], match["split"], int(match["of"])][int(match["number"])] = name
    if not sets:
        return None
    found: dict[str, list[str]] = {}
    for (split, _, _, total), names in sorted(sets.items(), key=str):
        if split in found:
            raise InputError(f"--source={source} has several sets of {split} files, such as {names.popitem()[1]}.")
        missing = sorted(set(range(total)) - set(names))
        if missing:
            raise InputError(
                f"--source={source} has {len(names)} of {total} {split} files, such as {min(names.values())}; missing "
                f"is the one of number {missing[0]:05d}{f', and {len(missing) - 1} more' if missing[1:] else ''}."
            )
        found[split] = [os.path.join(os.path.abspath(folder), names[number]) for number in range(total)]
    if "train" not in found:
        raise InputError(f"--source={source} has TFRecords for validation, but none for training.")
    return found


def _innermost(source: str) -> str | None:
    """The innermost of nested folders that hold nothing else, as imagenet2012/5.1.0/; None for a file."""
    while os.path.isdir(source):
        inside = os.listdir(source)
        if len(inside) != 1 or not os.path.isdir(os.path.join(source, inside[0])):
            return source
        source = os.path.join(source, inside[0])
    return None


def keys_of(path: str) -> Keys:
    """The Keys of a file's set, from its first record.

    Raises:
      ValueError: it has no record, or one of another layout.
    """
    names: list[str] = []
    for _, features in _records(path, index.offsets(path)[:1]):
        names = sorted(name for name, _ in features)
        for keys in KINDS:
            if {keys.image, keys.label} <= set(names):
                return keys
    raise InputError(
        f"{path}: the first record has the features {', '.join(names) or 'of no example'}; expected "
        + ", or ".join(f"{keys.image} and {keys.label}" for keys in KINDS)
        + "."
    )


def index_file(task: Task, tick: Callable[[], None]) -> dict[str, Any]:
    """The contents of a file: 'offsets' (int64 [records]), 'bytes', and 'names' of classes by stored label.

    A name is that of the first record with the label, '' for none.

    Raises:
      ValueError: the file is broken, or a record lacks the image or the label.
    """
    offsets = index.offsets(task.path)
    names: dict[int, str] = {}
    for offset, features in _records(task.path, offsets):
        values = dict(features)
        label = values.get(task.keys.label)
        if not isinstance(label, int) or not values.get(task.keys.image):
            raise InputError(
                f"{task.path}: the record at byte {offset} has no {task.keys.image} (bytes) or no "
                f"{task.keys.label} (int64)."
            )
        if label not in names:
            name = values.get(task.keys.synset or "")
            names[label] = str(name[:_LONGEST_NAME], "utf-8", "replace") if isinstance(name, memoryview) else ""
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
    merged = {split: _merged(results) for split, results in parts.items()}
    train = merged["train"]
    # The standard records count from 1; a set with label 0 counts from 0.
    offset = 0 if keys.synset is None or 0 in train else 1
    if max(train) > _LARGEST_LABEL:
        raise InputError(f"The train records have the label {max(train)}; expected {_LARGEST_LABEL:,} at most.")
    path = os.path.join(folder, _CLASSES)
    names = layouts.text_of(path, path).split("\n") if os.path.isfile(path) else []
    names = [name for name in names if name] or [
        train.get(label) or str(label) for label in range(offset, max(train) + 1)
    ]
    for split, found in merged.items():
        strange = [label for label in found if not offset <= label < offset + len(names)]
        if strange:
            raise InputError(
                f"The {split} records have the label {strange[0]}; expected {offset} to {offset + len(names) - 1}. "
                "A split without labels has to be put elsewhere."
            )
    if len(set(names)) < len(names):
        raise InputError(f"Two labels have the same class, {collections.Counter(names).most_common(1)[0][0]!r}.")
    return tuple(names), offset


def _merged(results: Iterable[dict[str, Any]]) -> dict[int, str]:
    """The name of each label in some files."""
    merged: dict[int, str] = {}
    for result in results:
        for label, name in result["names"].items():
            known = merged.setdefault(label, name)
            if name != known:
                raise InputError(f"Label {label} is of class {known!r} in one record and of {name!r} in another.")
    return merged


def _records(path: str, offsets: Any) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
    """(offset, list of (name, value) by `tfrecord.parsed`) of each record; the images are not read."""
    if not len(offsets):
        return
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(content, "madvise"):
        # Otherwise the system reads ahead, and so everything.
        content.madvise(mmap.MADV_RANDOM)
    view = memoryview(content)
    for offset in offsets.tolist():
        start = offset + tfrecord.HEADER_BYTES
        length = tfrecord.LENGTH.unpack_from(view, offset)[0]
        try:
            yield offset, list(tfrecord.parsed(view[start : start + length]))
        except ValueError as error:
            raise InputError(f"{path}: the record at byte {offset} is no tf.train.Example ({error}).") from None


class Indexing(preparation.Preparation):
    """Uses TFRecords in place.

    Args:
      source: the folder that the user gave.
      records: paths by split, from `find`.

    Raises:
      ValueError: the first record is of an unknown layout.
    """

    kind, function = image_manifest.KIND, staticmethod(index_file)

    def __init__(self, source: str, records: dict[str, list[str]]) -> None:
        self.splits = self._records = records
        sizes = {path: os.path.getsize(path) for paths in records.values() for path in paths}
        # A file may be empty.
        self._first = next((path for path in records["train"] if sizes[path]), records["train"][0])
        self._keys = keys_of(self._first)
        rows = [(os.path.basename(path), size) for path, size in sizes.items()]
        self.fingerprint = preparation.fingerprint(source, self._keys.layout, {}, [], rows)

    def is_whole(self, folder: str) -> bool:
        return image_manifest.is_whole(folder)

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
