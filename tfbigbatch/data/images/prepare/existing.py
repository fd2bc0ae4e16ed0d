"""TFRecords that others made: where their records begin, and which classes they hold. They stay as they are."""

import collections
import dataclasses
import hashlib
import mmap
import os
import re

from tfbigbatch.data.images.prepare import labels
from tfbigbatch.data.records import index, tfrecord
from tfbigbatch.errors import InputError

_NAME = re.compile(
    r"(?P<set>.*-)?(?P<split>train|validation|val|test)(\.tfrecords?)?-(?P<number>\d{5})-of-(?P<of>\d{5})(\.tfrecords?)?"
)
_SPLITS = {"train": "train", "validation": "validation", "val": "validation"}
# tensorflow_datasets names the classes in this file beside the records.
_CLASSES = "label.labels.txt"
# Labels are numbered one after the other: one above this is damage, and a list of classes up to it would fill memory.
_LARGEST_LABEL = 10_000_000
# Bytes of a class's name or words that are read.
_LONGEST_TEXT = 1000


@dataclasses.dataclass(frozen=True)
class Keys:
    """Where a set has what.

    Attributes:
      layout: in words.
      image, label: the features of the encoded image and of the label.
      synset, text: the features of the class's name and words; None where there are none.
    """

    layout: str
    image: str
    label: str
    synset: str | None
    text: str | None


KINDS = (
    Keys("TFRecords of ImageNet", "image/encoded", "image/class/label", "image/class/synset", "image/class/text"),
    Keys("TFRecords of tensorflow_datasets", "image", "label", None, None),
)


@dataclasses.dataclass(frozen=True)
class Task:
    """A file to go through: its path, the Keys of its set, and whether its digest is wanted."""

    path: str
    keys: Keys
    sha256: bool


def find(source):
    """Dictionary from 'train' and 'validation' to lists of paths; None where the folder has no such TFRecords.

    Raises:
      ValueError: a file of a set is missing, there are several sets, or none for training.
    """
    folder = _innermost(source)
    sets = collections.defaultdict(dict)
    for name in os.listdir(folder) if folder else ():
        match = _NAME.fullmatch(name)
        if match and (split := _SPLITS.get(match["split"])):
            sets[split, match["set"], match["split"], int(match["of"])][int(match["number"])] = name
    if not sets:
        return None
    found = {}
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


def _innermost(source):
    """The folder itself, or the one below folders that have nothing else, as imagenet2012/5.1.0/."""
    while os.path.isdir(source):
        inside = os.listdir(source)
        if len(inside) != 1 or not os.path.isdir(os.path.join(source, inside[0])):
            return source
        source = os.path.join(source, inside[0])
    return None


def keys_of(path):
    """The Keys of the set that a file is of, by its first record.

    Raises:
      ValueError: it has no record, or the record is of another kind.
    """
    names = []
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


def go_through(task, tick):
    """What a file holds: offsets (int64 array of [records]), bytes, labels, sha256.

    `labels` is a dictionary from the stored labels to (number of records, class's name, its words); the two
    last as the first record of the label has them, '' for none.

    Raises:
      ValueError: the file is broken, or a record lacks the image or the label.
    """
    offsets, found = index.offsets(task.path), {}
    for offset, features in _records(task.path, offsets):
        values = dict(features)
        label = values.get(task.keys.label)
        if not isinstance(label, int) or not values.get(task.keys.image):
            raise InputError(
                f"{task.path}: the record at byte {offset} has no {task.keys.image} (bytes) or no "
                f"{task.keys.label} (int64)."
            )
        if label in found:
            count, *names = found[label]
        else:
            count = 0
            names = [_text(values.get(key)) for key in (task.keys.synset, task.keys.text)]
        found[label] = (count + 1, *names)
    tick()
    return {
        "offsets": offsets,
        "bytes": os.path.getsize(task.path),
        "labels": found,
        "sha256": _sha256(task.path) if task.sha256 else None,
    }


def classes_of(parts, keys, folder):
    """The classes of a set's records.

    Args:
      parts: dictionary from splits to lists of what `go_through` gave.
      keys: Keys of the set.
      folder: where its files lie.

    Returns:
      (names, texts, the stored label of class 0).

    Raises:
      ValueError: a label is out of range, or has two names.
    """
    merged = {split: _merged(results) for split, results in parts.items()}
    train = merged["train"]
    # The standard records count from 1; where one has label 0, its set was made to count from 0.
    offset = 0 if keys.synset is None or 0 in train else 1
    if max(train) > _LARGEST_LABEL:
        raise InputError(f"The train records have the label {max(train)}; expected {_LARGEST_LABEL:,} at most.")
    path = os.path.join(folder, _CLASSES)
    names = labels.text_of(path, "source").split("\n") if os.path.isfile(path) else []
    names = [name for name in names if name] or [
        train.get(label, (0, "", ""))[1] or str(label) for label in range(offset, max(train) + 1)
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
    texts = [train.get(label, (0, "", ""))[2] for label in range(offset, offset + len(names))]
    return tuple(names), tuple(texts), offset


def _text(value):
    """The text of a feature that should be one; '' where it is absent or of another kind."""
    return str(value[:_LONGEST_TEXT], "utf-8", "replace") if isinstance(value, memoryview) else ""


def _merged(results):
    """Dictionary from the labels in some files to (count, name, words)."""
    merged = {}
    for result in results:
        for label, (count, name, words) in result["labels"].items():
            before, known, _ = merged.get(label, (0, name, words))
            if name != known:
                raise InputError(f"Label {label} is of class {known!r} in one record and of {name!r} in another.")
            merged[label] = (before + count, name, words)
    return merged


def _records(path, offsets):
    """(offset, list of (name, value) by `tfrecord.parsed`) of each record; the images themselves are not read."""
    if not len(offsets):
        return
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(content, "madvise"):
        # Else the system reads ahead, which here is to read everything.
        content.madvise(mmap.MADV_RANDOM)
    view = memoryview(content)
    for offset in offsets.tolist():
        start = offset + tfrecord.HEADER_BYTES
        length = tfrecord.LENGTH.unpack_from(view, offset)[0]
        try:
            yield offset, list(tfrecord.parsed(view[start : start + length]))
        except ValueError as error:
            raise InputError(f"{path}: the record at byte {offset} is no tf.train.Example ({error}).") from None


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
