"""Manifest of prepared sentence pairs: vocabulary, lengths and texts, besides records/manifest.py.

The folder also holds vocabulary.model, the sentencepiece model; train.lengths.npy etc., uint16 [records, 2], the pieces
of each source and target sentence; and for held-out sets validation.source.txt, validation.reference.txt etc., the raw
lines; and train.token_counts.npy (prepared_text.py).

A record is a tf.train.Example of 'source' and 'target', little-endian ids without BEGIN and END, and 'source_length'
and 'target_length', int64, their numbers.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbigbatch.data import prepared_text, text_files
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.translation.vocabulary import END, Vocabulary
from tfbigbatch.errors import InputError

KIND = record_manifest.Kind(
    what="pairs of sentences",
    command=(
        "tfbigbatch prepare-wmt --source_files=train.en --target_files=train.de --valid_source_files=valid.en "
        "--valid_target_files=valid.de --test_source_files=test.en --test_target_files=test.de --output_dir=PREPARED"
    ),
)
VOCABULARY = "vocabulary.model"
# Names of the two sides in a record, and in a held-out set.
SIDES, TEXTS = ("source", "target"), ("source", "reference")


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest(prepared_text.PreparedText):
    """Content of a prepared folder.

    Attributes:
      folder: its path.
      vocabulary: of both languages.
      splits: 'train' and perhaps 'validation', 'test', 'test_2' and so on.
      lengths: uint16 [records, 2] by split.
      stored_counts: see prepared_text.PreparedText.
    """

    folder: str
    vocabulary: Vocabulary
    splits: dict[str, record_manifest.Split]
    lengths: dict[str, np.ndarray]
    stored_counts: np.ndarray | None = None

    def targets(self, record: bytes) -> np.ndarray:
        """The ids to predict of a record: the target's, and END."""
        ids = np.frombuffer(tfrecord.bytes_of(record, "target"), self.id_type)
        return np.append(ids.astype(np.int64), END)

    def texts(self, split: str) -> tuple[list[str], ...]:
        """The raw lines of a held-out set, without line ends: (sources, references).

        Raises:
          ValueError: the set has no texts, or not one per record.
        """
        found, expected = [], self.splits[split].examples
        for path in text_paths(self.folder, split):
            lines = [line.rstrip("\r") for line in text_files.read(path).removesuffix("\n").split("\n")]
            if len(lines) != expected:
                raise InputError(f"{path} has {len(lines):,} lines; the set has {expected:,} sentences. {KIND.again}")
            found.append(lines)
        return tuple(found)


def text_paths(folder: str, split: str) -> tuple[str, ...]:
    """The files of a held-out set's raw lines: (sources, references)."""
    return tuple(os.path.join(folder, f"{split}.{kind}.txt") for kind in TEXTS)


def load(folder: str | None) -> Manifest:
    """The manifest of a prepared folder.

    Raises:
      ValueError: as record_manifest.loading and prepared_text.read; the lengths have changed, or the raw lines of a
        held-out set are gone.
    """
    with record_manifest.loading(folder, KIND) as (folder, content, splits):
        texts = prepared_text.read(folder, content, splits, VOCABULARY, Vocabulary.load)
        lengths = {
            name: prepared_text.read_array(folder, f"{name}.lengths.npy", digest)
            for name, digest in content["lengths_sha256"].items()
        }
        for path in (path for name in lengths if name != "train" for path in text_paths(folder, name)):
            if not os.path.exists(path):
                raise InputError(f"{path}: no such file.")
        return Manifest(folder=folder, lengths=lengths, **texts)


def save(folder: str, manifest: Manifest, about: Mapping[str, Any]) -> None:
    """Writes a prepared folder's lengths and manifest, with further fields `about`; see prepared_text.save."""
    lengths = {
        name: prepared_text.write_array(folder, f"{name}.lengths.npy", lengths)
        for name, lengths in manifest.lengths.items()
    }
    prepared_text.save(folder, KIND, VOCABULARY, manifest, {**about, "lengths_sha256": lengths})
