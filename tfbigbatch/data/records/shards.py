"""TFRecord shards of a prepared folder: what a shard is, and writing it atomically with a record of its contents.

How a dataset uses this module, from its `prepare/`:

    planned = [Shard.numbered(split, number, total, folder, content), ...]    # content: the dataset's own dataclass
    results = write_missing(planned, function, size=..., unit="document", processes=...)
    splits, sha256 = splits_of(planned, results), digests(planned, results)   # for the manifest

where `function(shard, tick)` is importable (worker processes call it), reads `shard.content`, and returns
`write(shard, runs, counts)`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data.records import index, tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.prepared_folder import PROGRESS
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils import processes as workers


@dataclasses.dataclass(frozen=True, eq=False)
class Shard:
    """A TFRecord file to write.

    Attributes:
      name: of the file, train-00000-of-00128.
      split: 'train', 'validation' or the name of another held-out set.
      folder: the prepared folder.
      content: what goes into it, of the dataset's own type; it must pickle.
    """

    name: str
    split: str
    folder: str
    content: Any

    @classmethod
    def numbered(cls, split: str, number: int, total: int, folder: str, content: Any) -> Shard:
        """The shard `number`, from 0, of `total` in a split."""
        return cls(f"{split}-{number:05d}-of-{total:05d}", split, folder, content)

    @property
    def path(self) -> str:
        """The TFRecord file, once it is whole."""
        return os.path.join(self.folder, self.name)

    @property
    def record(self) -> str:
        """The JSON file that says what the shard holds; written last."""
        return self.sidecar(".json")

    @property
    def offsets(self) -> str:
        """The NumPy file of the byte at which each record begins."""
        return self.sidecar(".offsets.npy")

    def sidecar(self, ending: str) -> str:
        """A file that belongs to the shard, in the folder's progress."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}{ending}")


def write(shard: Shard, runs: Iterable[Sequence[bytes]], counts: dict[str, Any]) -> dict[str, Any]:
    """Writes a shard, its offsets, and then its record.

    Args:
      shard: Shard.
      runs: lists of serialized examples; an error that it raises ends the writing, and nothing is left under the
        shard's name.
      counts: goes into the record, with the values it has when `runs` has ended.

    Returns:
      The record: `counts`, and the file's 'bytes' and 'sha256'.

    Raises:
      ValueError: the folder cannot be written.
    """
    digest, sizes, part = hashlib.sha256(), [], f"{os.path.splitext(shard.record)[0]}.part"
    try:
        with open(part, "wb") as file:
            for run in runs:
                for frame in map(tfrecord.framed, run):
                    file.write(frame)
                    digest.update(frame)
                    sizes.append(len(frame))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, shard.path)
        ends = np.cumsum(np.array(sizes, np.int64))
        files.atomic_write(shard.offsets, lambda file: np.save(file, ends - np.array(sizes, np.int64)))
        record = {**counts, "bytes": int(ends[-1]) if sizes else 0, "sha256": digest.hexdigest()}
        files.atomic_write(shard.record, lambda file: file.write(json.dumps(record, indent=1).encode()))
    except OSError as error:
        reason = error.strerror or error
        where = error.filename or f"{shard.path} cannot be written"
        raise InputError(f"{where}: {reason}.") from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(part)
    return record


def done(shard: Shard) -> dict[str, Any] | None:
    """The record of a whole shard; None where it is missing, or not of the size it was written with."""
    try:
        with files.open_regular(shard.record, encoding="utf-8") as file:
            record = json.load(file)
        whole = os.path.getsize(shard.path) == record["bytes"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return record if whole else None


def write_missing(
    planned: Sequence[Shard],
    function: Callable[[Shard, Callable[[], None]], dict[str, Any]],
    *,
    size: Callable[[Shard], int],
    unit: str,
    processes: int,
) -> dict[str, dict[str, Any]]:
    """Writes the shards that are not whole, in parallel, with a progress bar.

    Args:
      planned: all shards.
      function: writes one; see the module's docstring.
      size: how many times `function` calls tick() for a shard.
      unit: what a tick counts.
      processes: how many at once.

    Returns:
      The records of all shards, by name.
    """
    results = {shard.name: done(shard) for shard in planned}
    missing = [shard for shard in planned if results[shard.name] is None]
    total = sum(map(size, planned))

    def ended(shard: Shard, record: dict[str, Any]) -> None:
        results[shard.name] = record

    with workers.progress_bar(total, total - sum(map(size, missing)), unit) as progress:
        workers.run_tasks(function, missing, processes=processes, ended=ended, progress=progress)
    return {name: record for name, record in results.items() if record is not None}


def splits_of(planned: Sequence[Shard], results: dict[str, dict[str, Any]]) -> dict[str, Split]:
    """The Splits that the written shards make up, by name."""
    splits = {}
    for split in dict.fromkeys(shard.split for shard in planned):
        part = [shard for shard in planned if shard.split == split]
        sizes = [results[shard.name]["bytes"] for shard in part]
        splits[split] = Split.of_files(split, [shard.path for shard in part], list(map(_offsets, part)), sizes)
    return splits


def _offsets(shard: Shard) -> np.ndarray:
    # Earlier versions kept no offsets of image shards.
    return files.read_array(shard.offsets) if os.path.exists(shard.offsets) else index.offsets(shard.path)


def digests(planned: Sequence[Shard], results: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The SHA-256 of each written shard, by path."""
    return {shard.path: results[shard.name]["sha256"] for shard in planned}


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
