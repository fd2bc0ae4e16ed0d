"""Common parts of prepared texts: the type of ids in records, and files beside the records, held to their digests.

One of these is train.token_counts.npy, int64 [vocabulary]: how often each token is to be predicted in training, for the
initial bias of a model's output.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.tfrecord import RandomAccessReader
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

COUNTS = "train.token_counts.npy"
# Records of a larger set that are counted, evenly spaced: some 20 s. Of 32,000 pieces in 200,000 sentences the
# frequencies are known to 0.003 nats.
_MOST_COUNTED = 1_000_000
_TOGETHER = 1024
_Manifest = TypeVar("_Manifest")


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


def counts(
    split: Split, targets: Callable[[bytes], np.ndarray], vocabulary_size: int, most_records: int = _MOST_COUNTED
) -> np.ndarray:
    """The number of times that each id in [0, vocabulary_size) is a target in a split's records: int64.

    Damaged records are left out, and so are other ids. Of more than `most_records` evenly spaced ones are read.
    """
    numbers = np.unique(np.linspace(0, split.examples - 1, min(split.examples, most_records)).astype(np.int64))
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


def load(
    folder: str | None,
    kind: record_manifest.Kind,
    vocabulary_file: str,
    vocabulary_of: Callable[[str], Any],
    build: Callable[[str, dict[str, Any], dict[str, Any]], _Manifest],
) -> _Manifest:
    """The manifest of a prepared folder of texts, checked against its files, vocabulary and counts.

    Args:
      folder, kind: see record_manifest.load.
      vocabulary_file: its name in the folder.
      vocabulary_of: function of its path; gives a vocabulary with `content` and `digest`.
      build: function of the folder's path, the content of manifest.json and the attributes of PreparedText.

    Raises:
      ValueError: as record_manifest.load; or the vocabulary or the counts have changed.
    """

    def built(folder: str, content: dict[str, Any], splits: dict[str, Split]) -> _Manifest:
        record_manifest.check_types({"train": Split}, splits)
        path = os.path.join(folder, vocabulary_file)
        vocabulary = vocabulary_of(path)
        check_vocabulary(path, vocabulary.digest, content["vocabulary_sha256"])
        counts = read_array(folder, COUNTS, content["token_counts_sha256"])
        return build(folder, content, {"vocabulary": vocabulary, "splits": splits, "stored_counts": counts})

    return record_manifest.load(folder, kind, built)


def save(
    folder: str, kind: record_manifest.Kind, vocabulary_file: str, manifest: PreparedText, fields: dict[str, Any]
) -> None:
    """Writes the vocabulary, the counts, the indexes and then manifest.json, each atomically.

    Args:
      folder, kind, fields: see record_manifest.save, as for the errors.
      vocabulary_file: its name in the folder.
      manifest: a PreparedText.
    """
    with record_manifest.writing(folder):
        os.makedirs(folder, exist_ok=True)
    write(folder, vocabulary_file, manifest.vocabulary.content)
    fields = {
        **fields,
        "vocabulary_sha256": manifest.vocabulary.digest,
        "vocabulary_size": len(manifest.vocabulary),
        "token_counts_sha256": write_array(folder, COUNTS, manifest.token_counts),
    }
    record_manifest.save(folder, kind, manifest.splits, fields)


def write(folder: str, name: str, content: bytes) -> str:
    """Writes a file of a prepared folder atomically; returns its path. Raises ValueError where that fails."""
    path = os.path.join(folder, name)
    with record_manifest.writing(path):
        files.atomic_write(path, lambda file: file.write(content))
    return path


def write_array(folder: str, name: str, array: np.ndarray) -> str:
    """Writes a .npy file of a prepared folder atomically; returns its digest. Raises ValueError where that fails."""
    path = os.path.join(folder, name)
    with record_manifest.writing(path):
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


def check_vocabulary(path: str, found: str, expected: Any) -> None:
    """Raises ValueError where a vocabulary's digest is not the expected one."""
    if found != expected:
        raise InputError(f"{path} is not the vocabulary that the text was prepared with: it has changed.")


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(f"{array.dtype.str} {array.shape}".encode() + array.tobytes()).hexdigest()
