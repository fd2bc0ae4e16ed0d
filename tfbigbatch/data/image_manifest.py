"""A prepared set of images: TFRecord files, an index of their records, and the manifest that names both.

The folder holds manifest.json, written last (without it a folder is not whole), and an index for each
split, train.index.npz and validation.index.npz: `offsets` (int64 [records], the byte at which each
record's frame begins in its file, the files one after the other) and `counts` (int64 [files], records
in each). The TFRecord files lie in the folder too, or anywhere, by absolute path. Nothing here needs TensorFlow.
"""

import dataclasses
import hashlib
import json
import os
import zipfile

import numpy as np

from tfbigbatch.data.whole_file import replace
from tfbigbatch.errors import InputError

MANIFEST = "manifest.json"
_CONTENT, _FORMAT = "images in TFRecords", 1
_COMMAND = "python tools/prepare_imagenet.py --source=IMAGES --output_dir=PREPARED"


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """The records of one split.

    Attributes:
      name: 'train' or 'validation'.
      files: tuple of absolute paths of TFRecord files.
      counts: int64 array of [files], the records in each.
      offsets: int64 array of [records], where each record's frame begins in its file, in bytes; the
        files one after the other.
      bytes: int64 array of [files], their sizes.

    Raises:
      ValueError: the arrays do not belong together.
    """

    name: str
    files: tuple
    counts: np.ndarray
    offsets: np.ndarray
    bytes: np.ndarray

    def __post_init__(self):
        for name in ("counts", "offsets", "bytes"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int64))
        if not len(self.files) == len(self.counts) == len(self.bytes):
            raise InputError(
                f"split {self.name}: {len(self.files)} files, {len(self.counts)} counts and {len(self.bytes)} sizes; "
                "expected one of each a file."
            )
        if self.counts.sum() != len(self.offsets):
            raise InputError(
                f"split {self.name}: {len(self.offsets)} offsets, but the files hold {self.counts.sum()} records."
            )
        last = np.cumsum(self.counts) - 1
        first, holds = last - self.counts + 1, self.counts > 0
        inside = (self.offsets[first[holds]] == 0) & (self.offsets[last[holds]] < self.bytes[holds])
        grows = np.diff(self.offsets) > 0
        # From one file to the next the offset falls back to 0.
        grows[last[holds][:-1]] = True
        if not (inside.all() and grows.all()):
            raise InputError(
                f"split {self.name}: the offsets are not those of its files: they begin at 0, grow, "
                "and end within the file."
            )

    @classmethod
    def of_files(cls, name, files, offsets, sizes):
        """The Split of files, of a list of the offsets in each and of their sizes."""
        joined = np.concatenate([np.zeros(0, np.int64), *offsets])
        return cls(name, tuple(files), [len(part) for part in offsets], joined, sizes)

    @property
    def examples(self):
        """How many records the split has."""
        return len(self.offsets)


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """What a prepared folder holds.

    Attributes:
      classes: tuple of the classes' names, in the order of their numbers.
      image_key: the feature that holds the encoded image (bytes).
      label_key: the feature that holds the label (int64).
      label_offset: the stored label of class 0.
      splits: dictionary from 'train' and, where there is one, 'validation' to Split.
    """

    classes: tuple
    image_key: str
    label_key: str
    label_offset: int
    splits: dict


def load(folder):
    """The Manifest of a prepared folder, checked against the files' sizes and the index.

    Raises:
      ValueError: the folder is not a prepared one; a file is missing or of another size; or the index
        is not that of the manifest.
    """
    if folder is None:
        raise InputError(f"--data_dir is missing: give a folder of prepared images. To prepare one: {_COMMAND}")
    content = read(folder)
    if content is None:
        raise InputError(
            f"--data_dir={folder} holds no prepared images: it has no {MANIFEST} of them. "
            f"Prepare them, then pass --data_dir=PREPARED: {_COMMAND}"
        )
    try:
        return Manifest(
            classes=tuple(content["classes"]),
            image_key=content["image_key"],
            label_key=content["label_key"],
            label_offset=content["label_offset"],
            splits={name: _split(folder, name, entry) for name, entry in content["splits"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{os.path.join(folder, MANIFEST)} is not whole ({error!r}). {_again()}") from None


def save(folder, manifest, *, sha256=None, about=None):
    """Writes the indexes and then manifest.json; each file whole or not at all.

    Args:
      folder: where they go; made where it does not exist.
      manifest: Manifest; files that lie in `folder` are named relative to it, so that it can move.
      sha256: dictionary from a split's files to their digests, as far as they are known.
      about: dictionary of what else to write down, such as where the images are from.

    Raises:
      ValueError: the folder cannot be written.
    """
    splits = {}
    try:
        os.makedirs(folder, exist_ok=True)
        for name, split in manifest.splits.items():
            replace(
                index_path(folder, name),
                lambda file, split=split: np.savez(file, offsets=split.offsets, counts=split.counts),
            )
            splits[name] = {
                "examples": split.examples,
                "index_sha256": _index_digest(split.offsets, split.counts),
                "files": [
                    {"name": _named(folder, path), "records": int(records), "bytes": int(size)}
                    | ({"sha256": sha256[path]} if path in (sha256 or {}) else {})
                    for path, records, size in zip(split.files, split.counts, split.bytes)
                ],
            }
        content = {
            **(about or {}),
            "content": _CONTENT,
            "format": _FORMAT,
            "classes": list(manifest.classes),
            "image_key": manifest.image_key,
            "label_key": manifest.label_key,
            "label_offset": manifest.label_offset,
            "splits": splits,
        }
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        replace(os.path.join(folder, MANIFEST), lambda file: file.write(text.encode()))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}.") from None


def read(folder):
    """All that the manifest says, as a dictionary; None where the folder has no manifest of images.

    Raises:
      ValueError: there is one, but it cannot be read or is of a later format.
    """
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}). {_again()}") from None
    if not isinstance(content, dict) or content.get("content") != _CONTENT:
        return None
    if content.get("format") != _FORMAT:
        raise InputError(
            f"{path} is of format {content.get('format')}; this version reads {_FORMAT}. Prepare the images with it: "
            f"{_COMMAND}"
        )
    return content


def index_path(folder, split):
    """Where a split's index lies."""
    return os.path.join(folder, f"{split}.index.npz")


def paths(folder, splits):
    """What `save` writes for some splits."""
    return [os.path.join(folder, MANIFEST), *(index_path(folder, split) for split in splits)]


def _split(folder, name, entry):
    """A Split, after the files' sizes and the index were checked."""
    # A relative name lies in the folder; join leaves an absolute one as it is.
    files = tuple(os.path.join(os.path.abspath(folder), file["name"]) for file in entry["files"])
    sizes = [file["bytes"] for file in entry["files"]]
    for path, size in zip(files, sizes):
        try:
            found = os.path.getsize(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}. {_again()}") from None
        if found != size:
            raise InputError(f"{path} has {found} bytes; {MANIFEST} says {size}. {_again()}")
    path = index_path(folder, name)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            offsets, counts = arrays["offsets"], arrays["counts"]
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read ({error}). {_again()}") from None
    records = [file["records"] for file in entry["files"]]
    if counts.tolist() != records or _index_digest(offsets, counts) != entry["index_sha256"]:
        raise InputError(f"{path} is not the index of the files in {MANIFEST}: it is another's or damaged. {_again()}")
    return Split(name, files, counts, offsets, sizes)


def _index_digest(offsets, counts):
    return hashlib.sha256(offsets.astype("<i8").tobytes() + counts.astype("<i8").tobytes()).hexdigest()


def _named(folder, path):
    inside = os.path.dirname(os.path.abspath(path)) == os.path.abspath(folder)
    return os.path.basename(path) if inside else os.path.abspath(path)


def _again():
    return f"The command that prepared the folder, given again, puts it right: {_COMMAND}"
