"""The manifest and index that every prepared dataset has on top of its TFRecord files.

The folder holds manifest.json, written last (a folder without it is incomplete), and an index for each split,
train.index.npy and validation.index.npy: int64 [records], the byte at which each record's frame begins in its file, for
all files in turn. The TFRecord files lie in the folder too, or anywhere, by absolute path. Nothing here needs
TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

MANIFEST = "manifest.json"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of prepared dataset.

    Attributes:
      what: the examples in words, for manifest.json and errors.
      command: the command that prepares such a dataset.
    """

    what: str
    command: str

    @property
    def again(self) -> str:
        """The last sentence of an error about a damaged folder."""
        return f"Run the command that prepared the folder again: {self.command}"


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """The records of one split.

    Attributes:
      name: 'train' or 'validation'.
      files: absolute paths of TFRecord files.
      counts: int64 array of [files], the records in each.
      offsets: int64 array of [records], where each record's frame begins in its file, in bytes, for all
        files in turn.
      bytes: int64 array of [files], their sizes.
      is_whole: False for a part of a split, whose records begin anywhere in their file.

    Raises:
      ValueError: the arrays do not belong together.
    """

    name: str
    files: tuple[str, ...]
    counts: np.ndarray
    offsets: np.ndarray
    bytes: np.ndarray
    is_whole: bool = True

    def __post_init__(self) -> None:
        for name in ("counts", "offsets", "bytes"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int64))
        of_files = len(self.files) == len(self.counts) == len(self.bytes) and not (self.counts < 0).any()
        if not of_files or self.counts.sum() != len(self.offsets) or not self._offsets_fit():
            raise InputError(
                f"split {self.name}: the offsets are not those of its files: expected one for each record, that begin "
                "at 0, grow, and end within the file."
            )

    def _offsets_fit(self) -> bool:
        last, holds = np.cumsum(self.counts) - 1, self.counts > 0
        first, last, sizes = (last - self.counts + 1)[holds], last[holds], self.bytes[holds]
        begins, ends = self.offsets[first], self.offsets[last]
        inside = ((begins == 0) | (not self.is_whole)) & (begins <= ends) & (ends < sizes)
        grows = np.diff(self.offsets) > 0
        # From one file to the next the offset falls back to 0.
        grows[last[:-1]] = True
        return bool(inside.all() and grows.all())

    @classmethod
    def of_files(cls, name: str, files: Sequence[str], offsets: Sequence[np.ndarray]) -> Split:
        """The Split of some files, from the offsets in each."""
        joined, counts = np.concatenate([np.zeros(0, np.int64), *offsets]), np.array([len(part) for part in offsets])
        return cls(name, tuple(files), counts, joined, np.array(list(map(os.path.getsize, files))))

    @property
    def examples(self) -> int:
        """The number of records."""
        return len(self.offsets)

    def split_off(self, name: str, examples: int) -> tuple[Split, Split]:
        """(the rest, a split `name` of the last `examples` records), to be read in order or shuffled.

        Raises:
          ValueError: `examples` is not in [1, all).
        """
        check_minival(examples, self.examples, f"{os.path.dirname(self.files[0])}, {self.name}")
        ends = np.minimum(np.cumsum(self.counts), self.examples - examples)
        kept = np.diff(ends, prepend=0)
        rest = dataclasses.replace(self, counts=kept, offsets=self.offsets[:-examples], is_whole=False)
        last = dataclasses.replace(rest, name=name, counts=self.counts - kept, offsets=self.offsets[-examples:])
        return rest, last


def check_minival(examples: Any, total: int, source: str) -> None:
    """Checks how many of `total` training examples are held out, where the set's other held-out data is the test.

    Raises:
      ValueError: it is not a whole number in [1, total); the message names the source.
    """
    if not isinstance(examples, int) or not 1 <= examples < total:
        raise InputError(
            f"data.minival={examples!r}: {source} has {total:,} training examples; expected 0, or fewer than that."
        )


def with_minival(splits: Mapping[str, Split], examples: int) -> dict[str, Split]:
    """The splits, with one 'minival' of the last `examples` training records, where that is not 0.

    Raises:
      ValueError: there are not so many.
    """
    if not examples:
        return dict(splits)
    train, last = splits["train"].split_off("minival", examples)
    return {**splits, "train": train, "minival": last}


def require(folder: str | None, kind: Kind) -> dict[str, Any]:
    """The content of a prepared folder's manifest.json, not yet checked against the files.

    Raises:
      ValueError: the folder is None or not a prepared one; the message has the command that makes one.
    """
    if folder is None:
        raise InputError(
            f"--data_dir is missing: give a folder of prepared {kind.what}. To prepare one: {kind.command}"
        )
    content = read(os.path.expanduser(folder), kind)
    if content is None:
        raise InputError(
            f"--data_dir={folder} holds no prepared {kind.what}: it has no {MANIFEST} of them. "
            f"Prepare them, then pass --data_dir=PREPARED: {kind.command}"
        )
    return content


@contextlib.contextmanager
def loading(folder: str | None, kind: Kind) -> Iterator[tuple[str, dict[str, Any], dict[str, Split]]]:
    """A context with a prepared folder's path, the content of manifest.json, and the Splits by name.

    The splits are checked against the files' sizes and the indexes; errors within the context are those of a damaged
    folder.

    Args:
      folder, kind: as of `require`.

    Raises:
      ValueError: the folder is not a prepared one; a file is missing or of another size; or the index is not that of
        the manifest. The message has the command that prepares the folder again.
    """
    content = require(folder, kind)
    assert folder is not None
    folder = os.path.expanduser(folder)
    try:
        yield folder, content, {name: _split(folder, name, entry) for name, entry in content["splits"].items()}
    except InputError as error:
        raise InputError(f"{str(error).removesuffix('.')}. {kind.again}") from None
    # ValueError: a file's name with a zero in it. OverflowError: a size of more than 64 bits.
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        path = os.path.join(folder, MANIFEST)
        raise InputError(f"{path} is incomplete or damaged ({error!r:.200}). {kind.again}") from None


def check_types(types: Mapping[Any, Any], content: Mapping[Any, Any]) -> None:
    """Raises TypeError where a field of manifest.json is missing or of another type.

    An int is of 32 bits, and a bool is none.
    """
    for name, kind in types.items():
        value = content.get(name)
        whole = not isinstance(value, int) or abs(value) < 2**31
        if isinstance(value, bool) is not (kind is bool) or not isinstance(value, kind) or not whole:
            raise TypeError(f"{name} is {value!r:.50}")


def save(folder: str, kind: Kind, splits: dict[str, Split], fields: dict[str, Any]) -> None:
    """Writes the indexes and then manifest.json, each atomically.

    Args:
      folder: created if it does not exist.
      kind: of the dataset.
      splits: by name; files that lie in `folder` are named relative to it, so that it can move.
      fields: what else manifest.json holds.

    Raises:
      ValueError: the folder cannot be written.
    """
    entries = {}

    def named(path: str) -> str:
        inside = os.path.dirname(os.path.abspath(path)) == os.path.abspath(folder)
        return os.path.basename(path) if inside else os.path.abspath(path)

    with files.writing_errors(folder):
        os.makedirs(folder, exist_ok=True)
        for name, split in splits.items():
            files.atomic_write(index_path(folder, name), functools.partial(np.save, arr=split.offsets))
            entries[name] = {
                "examples": split.examples,
                "index_sha256": _index_digest(split.offsets),
                "files": [
                    {"name": named(path), "records": int(records), "bytes": int(size)}
                    for path, records, size in zip(split.files, split.counts, split.bytes)
                ],
            }
        content = {**fields, "content": kind.what, "splits": entries}
        files.write_text(os.path.join(folder, MANIFEST), json.dumps(content, indent=1, sort_keys=True) + "\n")


def read(folder: str, kind: Kind) -> dict[str, Any] | None:
    """The content of manifest.json; None where the folder has no manifest of this kind.

    Raises:
      ValueError: there is one that cannot be read.
    """
    path = os.path.join(folder, MANIFEST)
    content = files.read_json_dictionary(path) if os.path.exists(path) else {}
    return content if content.get("content") == kind.what else None


def index_path(folder: str, split: str) -> str:
    """The path of a split's index."""
    return os.path.join(folder, f"{split}.index.npy")


def _split(folder: str, name: str, entry: dict[str, Any]) -> Split:
    """A Split, with the files' sizes and the index checked."""
    # A relative name lies in the folder; join leaves an absolute one as it is.
    paths = tuple(os.path.join(os.path.abspath(folder), file["name"]) for file in entry["files"])
    counts, sizes = ([operator.index(file[each]) for file in entry["files"]] for each in ("records", "bytes"))
    for path, size in zip(paths, sizes):
        with files.reading_errors(path):
            files.check_regular(path)
            found = os.path.getsize(path)
        if found != size:
            raise InputError(f"{path} has {found} bytes; {MANIFEST} says {size}.")
    path = index_path(folder, name)
    offsets = files.read_array(path)
    fits = offsets.dtype == np.int64 and offsets.shape == (sum(counts),)
    if not fits or _index_digest(offsets) != entry["index_sha256"]:
        raise InputError(
            f"{path} is not the index of the files in {MANIFEST}: it is damaged or belongs to another dataset."
        )
    return Split(name, paths, np.array(counts, np.int64), offsets, np.array(sizes, np.int64))


def _index_digest(offsets: np.ndarray) -> str:
    return hashlib.sha256(offsets.astype("<i8").tobytes()).hexdigest()
