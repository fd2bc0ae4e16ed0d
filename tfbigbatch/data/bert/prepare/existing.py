"""Indexing of existing TFRecords with static masks, in the layout of google-research/bert, in place.

tf-models-official's create_pretraining_data and NVIDIA's scripts write this layout too.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.records import preparation, tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.tokenizer import Vocabulary
from tfbigbatch.errors import InputError

# Words in the names of validation files.
_VALIDATION = ("eval", "valid", "dev")


def find(source: str) -> dict[str, list[str]]:
    """The sorted paths of the TFRecord files in a folder, or of the one file, by split; empty if there is none.

    Raises:
      ValueError: there is none for training.
    """
    inside = [source] if os.path.isfile(source) else sorted(glob.glob(os.path.join(glob.escape(source), "*")))
    paths = [os.path.abspath(path) for path in inside if os.path.isfile(path) and _begins_as_records(path)]
    names = {path: os.path.basename(path).lower() for path in paths if len(paths) > 1}
    held = [path for path, name in names.items() if any(word in name for word in _VALIDATION)]
    if held and len(held) == len(paths):
        raise InputError(f"--source={source} has TFRecords for validation ({held[0]}, ...), but none for training.")
    splits = {"train": [path for path in paths if path not in held], "validation": held}
    return {name: files for name, files in splits.items() if files}


def _begins_as_records(path: str) -> bool:
    with open(path, "rb") as file:
        return tfrecord.length_of(file.read(tfrecord.HEADER_BYTES)) is not None


def shapes_of(path: str) -> dict[str, Any]:
    """The fields of a bert_manifest.Manifest that the first record of a file tells.

    Raises:
      ValueError: it has another layout.
    """
    [(_, values)] = tfrecord.values_at(path, [0])
    counts = {name: len(found) for name, found in values.items()}
    tokens, predictions = bert_manifest.OF_TOKENS, bert_manifest.OF_PREDICTIONS
    sizes = [{counts.get(name) for name in names} for names in (tokens, predictions)]
    if {len(found) for found in sizes} != {1} or {None} in sizes:
        has = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())) or "no features"
        raise InputError(
            f"{path}: the first record has {has}; expected as many values in each of {', '.join(tokens)}, and in each "
            f"of {', '.join(predictions)}."
        )
    return {
        "max_seq_length": sizes[0].pop(),
        "max_predictions_per_seq": sizes[1].pop(),
        "next_sentence": counts.get(bert_manifest.NEXT_SENTENCE) == 1,
        "masked": True,
    }


def index(expected: dict[str, Any], path: str, tick: Callable[[], None]) -> np.ndarray:
    """The offsets of a file's records; raises ValueError where the first has other shapes than expected."""
    offsets = tfrecord.offsets(path)
    found = shapes_of(path) if len(offsets) else expected
    if found != expected:
        raise InputError(f"{path}: the first record is of {found}; the first of the set of {expected}.")
    tick()
    return offsets


class Indexing(preparation.Preparation):
    """The preparation of a folder that refers to existing TFRecords, of `find`; its tasks are their paths.

    Raises ValueError where there is no vocab.txt, with which they were made, or they have another layout.
    """

    kind, load = bert_manifest.KIND, staticmethod(bert_manifest.load)

    def __init__(self, source: str, records: dict[str, list[str]], vocab_file: str | None) -> None:
        if vocab_file is None:
            raise InputError(f"--source={source} holds TFRecords: give the --vocab_file that they were made with.")
        self._vocabulary, self._files = Vocabulary.load(vocab_file), records
        paths = self.tasks("", print)
        # A file may be empty.
        self._shapes = shapes_of(next((path for path in paths if os.path.getsize(path)), paths[0]))
        rows = [(os.path.basename(path), os.path.getsize(path)) for path in paths]
        kept = {"vocabulary": hashlib.sha256(self._vocabulary.content).hexdigest()}
        self.fingerprint = preparation.fingerprint(source, "TFRecords with masks", kept, [], rows)

    @property
    def function(self) -> Callable[[str, Callable[[], None]], np.ndarray]:
        return functools.partial(index, self._shapes)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[str]:
        return [path for files in self._files.values() for path in files]

    def save(self, folder: str, results: dict[str, np.ndarray]) -> None:
        splits = {
            name: Split.of_files(name, files, [results[path] for path in files]) for name, files in self._files.items()
        }
        manifest = bert_manifest.Manifest(vocabulary=self._vocabulary, splits=splits, **self._shapes)
        counts = {name: {"sequences": split.examples} for name, split in splits.items()}
        bert_manifest.save(folder, manifest, {**self.fingerprint, "counts": counts})
