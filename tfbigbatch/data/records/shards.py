"""TFRecord shards of a prepared folder: each is written atomically, with a record of its contents."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

PROGRESS = ".progress"
"""The folder of what a preparation needs to resume, in the prepared folder."""


@dataclasses.dataclass(frozen=True, eq=False)
class Shard:
    """A TFRecord file to write.

    Attributes:
      split: 'train', 'validation' or the name of another held-out set.
      number, total: which of the split's shards it is, from 0, of how many.
      folder: the prepared folder.
      content: what goes into it, of the dataset's own type; it must pickle.
    """

    split: str
    number: int
    total: int
    folder: str
    content: Any

    @property
    def name(self) -> str:
        """The file's name, train-00000-of-00128."""
        return f"{self.split}-{self.number:05d}-of-{self.total:05d}"

    @property
    def path(self) -> str:
        """The TFRecord file, once it is whole."""
        return os.path.join(self.folder, self.name)

    def sidecar(self, ending: str) -> str:
        """A file of the folder's progress that belongs to the shard: '.json', the record of its contents, is written
        last; '.offsets.npy' has the byte at which each example begins."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}{ending}")


def write(shard: Shard, runs: Iterable[Sequence[bytes]], counts: dict[str, Any]) -> dict[str, Any]:
    """Writes a shard, its offsets, and then its record.

    Args:
      shard: Shard.
      runs: lists of serialized examples; an error that it raises ends the writing, and nothing is left under the
        shard's name.
      counts: goes into the record, with the values it has when `runs` has ended.

    Returns:
      The record: `counts`, and the file's 'bytes'.

    Raises:
      ValueError: the folder cannot be written.
    """
    sizes, part = [], shard.sidecar(".part")
    try:
        with files.writing_errors(shard.path):
            with open(part, "wb") as file:
                for frame in map(tfrecord.framed, itertools.chain.from_iterable(runs)):
                    file.write(frame)
                    sizes.append(len(frame))
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, shard.path)
            ends = np.cumsum([0, *sizes], dtype=np.int64)
            files.atomic_write(shard.sidecar(".offsets.npy"), lambda file: np.save(file, ends[:-1]))
            record = {**counts, "bytes": int(ends[-1])}
            files.write_text(shard.sidecar(".json"), json.dumps(record, indent=1))
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
    return record


def done(shard: Shard) -> dict[str, Any] | None:
    """The record of a whole shard; None where it or its offsets are missing, or it has not the size it had."""
    try:
        record = files.read_json_dictionary(shard.sidecar(".json"))
        whole = os.path.getsize(shard.path) == record.get("bytes") and os.path.exists(shard.sidecar(".offsets.npy"))
    except (OSError, InputError):
        return None
    return record if whole else None


def splits_of(results: Mapping[Shard, dict[str, Any]]) -> dict[str, Split]:
    """The Splits of written shards, by name, from the shards' records."""
    splits = {}
    for split in dict.fromkeys(shard.split for shard in results):
        part = [shard for shard in results if shard.split == split]
        offsets = [files.read_array(shard.sidecar(".offsets.npy")) for shard in part]
        splits[split] = Split.of_files(split, [shard.path for shard in part], offsets)
    return splits


def write_split(folder: str, name: str, examples: Iterable[bytes]) -> Split:
    """Writes serialized examples into one TFRecord file of a folder, for fake data; returns the Split."""
    path = os.path.join(folder, f"{name}-00000-of-00001")
    files.atomic_write(path, lambda file: file.writelines(map(tfrecord.framed, examples)))
    return Split.of_files(name, [path], [tfrecord.offsets(path)])


def portions(ends: np.ndarray, count: int) -> Iterator[tuple[int, int]]:
    """Splits a row of texts into `count` runs of about the same size, none empty.

    Args:
      ends: int64 array of where each text ends, in bytes.
      count: the number of runs, at most that of the texts.

    Returns:
      Iterator of (first, last): a run is the texts [first, last).
    """
    cuts = np.searchsorted(ends, np.arange(1, count) * (int(ends[-1]) / count)) + 1
    cuts = np.maximum(np.minimum(cuts, len(ends) - np.arange(count - 1, 0, -1)), np.arange(1, count))
    # Large texts may push cuts onto each other.
    for at in range(1, len(cuts)):
        cuts[at] = max(cuts[at], cuts[at - 1] + 1)
    return zip([0, *cuts.tolist()], [*cuts.tolist(), len(ends)])
