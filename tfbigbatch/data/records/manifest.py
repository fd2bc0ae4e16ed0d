"""What prepared sets of records share: TFRecord files, an index of their records, and the manifest that names both.

The folder holds manifest.json, written last (without it a folder is not whole), and an index for each
split, train.index.npz and validation.index.npz: `offsets` (int64 [records], the byte at which each
record's frame begins in its file, the files one after the other) and `counts` (int64 [files], records
in each). The TFRecord files lie in the folder too, or anywhere, by absolute path. Nothing here needs TensorFlow.
"""

import dataclasses
import hashlib
import json
import os

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write, read_named_arrays

MANIFEST = "manifest.json"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of prepared set.

    Attributes:
      content: what manifest.json says that the folder holds.
      format: the number of the manifest's format.
      what: the examples in words, for errors.
      command: what prepares such a set.
    """

    content: str
    format: int
    what: str
    command: str

    @property
    def again(self):
        """Words that end an error about a damaged folder."""
        return f"The command that prepared the folder, given again, puts it right: {self.command}"


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


def load(folder, kind, build):
    """A prepared folder's manifest, checked against the files' sizes and the index.

    Args:
      folder: of a prepared set; None is refused with the command that makes one.
      kind: Kind.
      build: function of (what manifest.json says, dictionary from names to Splits); gives what is returned.

    Raises:
      ValueError: the folder is not a prepared one; a file is missing or of another size; or the index
        is not that of the manifest.
    """
    if folder is None:
        raise InputError(
            f"--data_dir is missing: give a folder of prepared {kind.what}. To prepare one: {kind.command}"
        )
    content = read(folder, kind)
    if content is None:
        raise InputError(
            f"--data_dir={folder} holds no prepared {kind.what}: it has no {MANIFEST} of them. "
            f"Prepare them, then pass --data_dir=PREPARED: {kind.command}"
        )
    try:
        splits = {name: _split(folder, name, entry, kind) for name, entry in content["splits"].items()}
        if "train" not in splits:
            # Every command that prepares writes it.
            raise KeyError("train")
        return build(content, splits)
    except InputError:
        raise
    # ValueError: a file's name with a zero in it. OverflowError: a size of more than 64 bits.
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InputError(f"{os.path.join(folder, MANIFEST)} is not whole ({error!r:.200}). {kind.again}") from None


def save(folder, kind, splits, fields, *, sha256=None):
    """Writes the indexes and then manifest.json; each file whole or not at all.

    Args:
      folder: where they go; made where it does not exist.
      kind: Kind.
      splits: dictionary from names to Splits; files that lie in `folder` are named relative to it, so that
        it can move.
      fields: dictionary of what else manifest.json says.
      sha256: dictionary from the splits' files to their digests, as far as they are known.

    Raises:
      ValueError: the folder cannot be written.
    """
    entries = {}
    try:
        os.makedirs(folder, exist_ok=True)
        for name, split in splits.items():
            atomic_write(
                index_path(folder, name),
                lambda file, split=split: np.savez(file, offsets=split.offsets, counts=split.counts),
            )
            entries[name] = {
                "examples": split.examples,
                "index_sha256": _index_digest(split.offsets, split.counts),
                "files": [
                    {"name": _named(folder, path), "records": int(records), "bytes": int(size)}
                    | ({"sha256": sha256[path]} if path in (sha256 or {}) else {})
                    for path, records, size in zip(split.files, split.counts, split.bytes)
                ],
            }
        content = {**fields, "content": kind.content, "format": kind.format, "splits": entries}
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        atomic_write(os.path.join(folder, MANIFEST), lambda file: file.write(text.encode()))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}.") from None


def read(folder, kind):
    """All that the manifest says, as a dictionary; None where the folder has no manifest of this kind.

    Raises:
      ValueError: there is one, but it cannot be read or is of a later format.
    """
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). {kind.again}") from None
    if not isinstance(content, dict) or content.get("content") != kind.content:
        return None
    if content.get("format") != kind.format:
        raise InputError(
            f"{path} is of format {content.get('format')}; this version reads {kind.format}. "
            f"Prepare the {kind.what} with it: {kind.command}"
        )
    return content


def index_path(folder, split):
    """Where a split's index lies."""
    return os.path.join(folder, f"{split}.index.npz")


def paths(folder, splits):
    """What `save` writes for some splits."""
    return [os.path.join(folder, MANIFEST), *(index_path(folder, split) for split in splits)]


def _split(folder, name, entry, kind):
    """A Split, after the files' sizes and the index were checked."""
    # A relative name lies in the folder; join leaves an absolute one as it is.
    files = tuple(os.path.join(os.path.abspath(folder), file["name"]) for file in entry["files"])
    sizes = [file["bytes"] for file in entry["files"]]
    for path, size in zip(files, sizes):
        try:
            found = os.path.getsize(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}. {kind.again}") from None
        if found != size:
            raise InputError(f"{path} has {found} bytes; {MANIFEST} says {size}. {kind.again}")
    path = index_path(folder, name)
    try:
        offsets, counts = read_named_arrays(path, ("offsets", "counts"))
    except InputError as error:
        raise InputError(f"{error}. {kind.again}") from None
    records = [file["records"] for file in entry["files"]]
    if counts.tolist() != records or _index_digest(offsets, counts) != entry["index_sha256"]:
        raise InputError(
            f"{path} is not the index of the files in {MANIFEST}: it is another's or damaged. {kind.again}"
        )
    return Split(name, files, counts, offsets, sizes)


def _index_digest(offsets, counts):
    return hashlib.sha256(offsets.astype("<i8").tobytes() + counts.astype("<i8").tobytes()).hexdigest()


def _named(folder, path):
    inside = os.path.dirname(os.path.abspath(path)) == os.path.abspath(folder)
    return os.path.basename(path) if inside else os.path.abspath(path)
