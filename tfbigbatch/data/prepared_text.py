"""Prepared texts: the type of ids in records, files beside the records, held to their digests, and their preparation.

One of these is train.token_counts.npy, int64 [vocabulary]: how often each token is to be predicted in training, for the
initial bias of a model's output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import preparation
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.records.tfrecord import RandomAccessReader
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

COUNTS = "train.token_counts.npy"
# Records of a larger set that are counted, evenly spaced: some 20 s. Of 32,000 pieces in 200,000 sentences the
# frequencies are known to 0.003 nats.
_MOST_COUNTED = 1_000_000
_TOGETHER = 1024


def id_type(vocabulary_size: int) -> np.dtype:
    """The type of an id in a record: little-endian, of two bytes where these are enough, else of four."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")


class PreparedText:
    """The part that manifests of prepared texts share.

    Attributes:
      vocabulary: of the ids.
      splits: by name, with 'train'.
      stored_counts: `token_counts` as the folder keeps them; None to count them.
    """

    vocabulary: Any
    splits: dict[str, Split]
    stored_counts: np.ndarray | None

    def targets(self, record: bytes) -> np.ndarray:
        """The ids to predict of a serialized record, int64; raises ValueError or KeyError for one that is damaged."""
        raise NotImplementedError

    @property
    def id_type(self) -> np.dtype:
        """The type of an id in a record."""
        return id_type(len(self.vocabulary))

    @functools.cached_property
    def token_counts(self) -> np.ndarray:
        """The number of times that each token is a target in training: int64 [vocabulary]."""
        if self.stored_counts is not None:
            return self.stored_counts
        return counts(self.splits["train"], self.targets, len(self.vocabulary))


def counts(split: Split, targets: Callable[[bytes], np.ndarray], vocabulary_size: int) -> np.ndarray:
    """The number of times that each id in [0, vocabulary_size) is a target in a split's records: int64.

    Damaged records are left out, and so are other ids. Of many records evenly spaced ones are read.
    """
    numbers = np.unique(np.linspace(0, split.examples - 1, min(split.examples, _MOST_COUNTED)).astype(np.int64))
    reader, found = RandomAccessReader(split), np.zeros(vocabulary_size, np.int64)
    for start in range(0, len(numbers), _TOGETHER):
        parts = [np.zeros(0, np.int64)]
        # An empty record is damaged.
        for record in filter(None, reader.read(numbers[start : start + _TOGETHER])):
            with contextlib.suppress(ValueError, KeyError):
                parts.append(targets(record))
        ids = np.concatenate(parts)
        found += np.bincount(ids[(ids >= 0) & (ids < vocabulary_size)], minlength=vocabulary_size)
    return found


def read(
    folder: str,
    content: dict[str, Any],
    splits: dict[str, Split],
    vocabulary_file: str,
    vocabulary_of: Callable[[str], Any],
) -> dict[str, Any]:
    """The attributes of a PreparedText, by name, within record_manifest.loading.

    Args:
      folder, content, splits: of the context.
      vocabulary_file: its name in the folder.
      vocabulary_of: function of its path; gives a vocabulary with `content`.

    Raises:
      ValueError: there is no training split, or the vocabulary or the counts have changed.
    """
    record_manifest.check_types({"train": Split}, splits)
    path = os.path.join(folder, vocabulary_file)
    vocabulary = vocabulary_of(path)
    check_vocabulary(path, vocabulary.content, content["vocabulary_sha256"])
    counts = read_array(folder, COUNTS, content["token_counts_sha256"])
    return {"vocabulary": vocabulary, "splits": splits, "stored_counts": counts}


def save(
    folder: str, kind: record_manifest.Kind, vocabulary_file: str, manifest: PreparedText, fields: dict[str, Any]
) -> None:
    """Writes the vocabulary, the counts, the indexes and then manifest.json, each atomically.

    Args:
      folder, kind, fields: see record_manifest.save, as for the errors.
      vocabulary_file: its name in the folder.
      manifest: a PreparedText.
    """
    with files.writing_errors(folder):
        os.makedirs(folder, exist_ok=True)
    write(folder, vocabulary_file, manifest.vocabulary.content)
    fields = {
        **fields,
        "vocabulary_sha256": hashlib.sha256(manifest.vocabulary.content).hexdigest(),
        "vocabulary_size": len(manifest.vocabulary),
        "token_counts_sha256": write_array(folder, COUNTS, manifest.token_counts),
    }
    record_manifest.save(folder, kind, manifest.splits, fields)


def write(folder: str, name: str, content: bytes) -> str:
    """Writes a file of a prepared folder atomically; returns its path. Raises ValueError where that fails."""
    path = os.path.join(folder, name)
    with files.writing_errors(path):
        files.atomic_write(path, lambda file: file.write(content))
    return path


def write_array(folder: str, name: str, array: np.ndarray) -> str:
    """Writes a .npy file of a prepared folder atomically; returns its digest. Raises ValueError where that fails."""
    path = os.path.join(folder, name)
    with files.writing_errors(path):
        files.atomic_write(path, functools.partial(np.save, arr=array))
    return _digest(array)


def read_array(folder: str, name: str, digest: Any) -> np.ndarray:
    """The array that `write_array` wrote with this digest.

    Raises:
      ValueError: the file is gone, damaged or another folder's.
    """
    path = os.path.join(folder, name)
    array = files.read_array(path)
    if _digest(array) != digest:
        raise InputError(f"{path} does not hold what was written: it is another's or damaged.")
    return array


def check_vocabulary(path: str, content: bytes, expected: Any) -> None:
    """Raises ValueError where a vocabulary's SHA-256 is not the expected one."""
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputError(f"{path} is not the vocabulary that the text was prepared with: it has changed.")


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(f"{array.dtype.str} {array.shape}".encode() + array.tobytes()).hexdigest()


class TextPreparation(preparation.Preparation):
    """The preparation of texts in shards of ids. A subclass sets the class attributes.

    Args:
      source: path of the texts; its last part names the source in the manifest.
      options: dataclass of flags, with `processes` and `given`.
      names, paths: of the texts.
      contents: what else the result depends on; JSON.

    Attributes:
      vocabulary: the one to use; None until it is learnt.
      vocabulary_path: its file in the folder's progress, for the workers.

    Raises:
      ValueError: a text is missing, or the given vocabulary cannot be used.
    """

    given: ClassVar[str]
    """The option that is the path of a vocabulary."""
    vocabulary_file: ClassVar[str]
    vocabulary_of: Callable[[str], Any]
    """The function of a path that loads a vocabulary with `content`."""
    write: Callable[[str, Any, Shard, Callable[[], None]], dict[str, Any]]
    """The function of (vocabulary_path, options, shard, tick) that writes a shard and gives its record."""

    def __init__(
        self, source: str, options: Any, names: Sequence[str], paths: Sequence[str], contents: Any = None
    ) -> None:
        self.options, self.paths = options, paths
        given = getattr(options, self.given)
        self.vocabulary = self.vocabulary_of(given) if given else None
        kept = dataclasses.asdict(options)
        del kept["processes"]
        kept[self.given] = self.vocabulary and hashlib.sha256(self.vocabulary.content).hexdigest()
        self.fingerprint = preparation.fingerprint(source, self.kind.what, kept, contents, rows_of(names, paths))

    def prepare(self, folder: str, say: Callable[[str], object] = lambda line: None) -> tuple[dict[str, Any], bool]:
        """`preparation.prepare` of this; the files do not depend on the number of processes."""
        return preparation.prepare(self, folder, processes=self.options.processes, say=say)

    @property
    def function(self) -> Callable[[Any, Callable[[], None]], Any]:
        return functools.partial(self.write, self.vocabulary_path, self.options)

    def scanned(self, scan: Callable[[str, Callable[[], None]], Any], unit: str) -> dict[str, Any]:
        """The results of `scan` by path."""
        # Starting workers takes longer than scanning a small corpus.
        several = self.options.processes if sum(map(os.path.getsize, self.paths)) > 100e6 else 1
        return preparation.run(scan, self.paths, unit=unit, processes=several)

    def set_vocabulary(self, folder: str, learn: Callable[[], Any]) -> None:
        """Sets `vocabulary` and `vocabulary_path`: the given one, that of a command that was stopped, or a new one."""
        name = f"{self.fingerprint['digest'][:16]}.{self.vocabulary_file}"
        self.vocabulary_path = preparation.progress_path(folder, name)
        if self.vocabulary or not os.path.exists(self.vocabulary_path):
            content = (self.vocabulary or learn()).content
            write(os.path.dirname(self.vocabulary_path), name, content)
        self.vocabulary = self.vocabulary_of(self.vocabulary_path)


def rows_of(names: Sequence[str], paths: Sequence[str]) -> list[tuple[str, int]]:
    """(name, bytes) of each text, for a fingerprint; raises ValueError where one is missing."""
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise InputError(f"{missing[0]}: no such file. Expected the path of a text.")
    return list(zip(names, map(os.path.getsize, paths)))


def sums(results: Mapping[Shard, dict[str, Any]], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The sums of the shards' numbers of these names, by split."""
    found: dict[str, dict[str, Any]] = {}
    for shard, record in results.items():
        of_split = found.setdefault(shard.split, dict.fromkeys(names, 0))
        for name in names:
            of_split[name] += record[name]
    return found
