"""Indexing of existing TFRecords with static masks, in the layout of google-research/bert, in place.

tf-models-official's create_pretraining_data and NVIDIA's scripts write this layout too; older and newer feature names
are both read.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbigbatch.data import token_counts, tokenizer
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert import target_counts
from tfbigbatch.data.records import index as record_index
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import prepared_folder, tfrecord
from tfbigbatch.errors import InputError
from tfbigbatch.utils import processes as workers

# Words in the names of validation files.
_VALIDATION = ("eval", "valid", "dev")
_SIZES = ("ids", "mask", "types"), ("positions", "labels", "weights")


def find(source: str) -> tuple[list[str], list[str]] | None:
    """The TFRecord files in a folder, or the one file: sorted paths of (training, validation); None if there is none.

    Raises:
      ValueError: there is none for training.
    """
    paths = [source] if os.path.isfile(source) else []
    if os.path.isdir(source):
        paths = sorted(path for name in os.listdir(source) if os.path.isfile(path := os.path.join(source, name)))
    paths = [os.path.abspath(path) for path in paths if _begins_as_records(path)]
    if not paths:
        return None
    held = [path for path in paths if any(word in os.path.basename(path).lower() for word in _VALIDATION)]
    if len(held) == len(paths) and len(paths) > 1:
        raise InputError(f"--source={source} has TFRecords for validation ({held[0]}, ...), but none for training.")
    return ([path for path in paths if path not in held], held) if len(paths) > 1 else (paths, [])


def _begins_as_records(path: str) -> bool:
    with open(path, "rb") as file:
        header = file.read(tfrecord.HEADER_BYTES)
    length = header[: tfrecord.LENGTH.size]
    return (
        len(header) == tfrecord.HEADER_BYTES
        and tfrecord.CHECKSUM.pack(tfrecord.masked_crc32c(length)) == header[tfrecord.LENGTH.size :]
    )


@dataclasses.dataclass(frozen=True)
class Shapes:
    """Features and lengths of records.

    Attributes:
      keys: bert_manifest.STANDARD_KEYS or NEWER_KEYS.
      max_seq_length: T.
      max_predictions_per_seq: P.
      next_sentence: whether there is a next-sentence label.
    """

    keys: dict[str, str]
    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool


def shapes_of(path: str, offset: int = 0) -> Shapes:
    """The shapes of the record at this byte of a file.

    Raises:
      ValueError: it has another layout.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        length = tfrecord.LENGTH.unpack_from(file.read(tfrecord.HEADER_BYTES))[0]
        record = file.read(length)
    try:
        counts = dict(tfrecord.counted(record))
    except ValueError as error:
        raise InputError(f"{path}: the record at byte {offset} is no tf.train.Example ({error}).") from None
    for keys in (bert_manifest.STANDARD_KEYS, bert_manifest.NEWER_KEYS):
        lengths, predictions = ({counts.get(keys[name]) for name in names} for names in _SIZES)
        (length_found, *more), (predicted, *others) = lengths, predictions
        if length_found is not None and predicted is not None and not more and not others:
            return Shapes(keys, length_found, predicted, counts.get(keys["next_sentence"]) == 1)
    has = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())) or "no features"
    raise InputError(
        f"{path}: the record at byte {offset} has {has}; expected "
        f"{', '.join(bert_manifest.STANDARD_KEYS.values())}, as many values in the first three, and in the next three."
    )


def go_through(task: tuple[str, Shapes], tick: Callable[[], None]) -> tuple[np.ndarray, int]:
    """The offsets of a file's records, and its size in bytes; checks the first and the last record.

    Args:
      task: path, and the expected shapes.
      tick: called at the end.

    Raises:
      ValueError: the file is damaged, or a record has other shapes.
    """
    path, expected = task
    offsets = record_index.offsets(path)
    for offset in {*offsets[:1].tolist(), *offsets[-1:].tolist()}:
        found = shapes_of(path, offset)
        if found != expected:
            raise InputError(f"{path}: the record at byte {offset} is of {found}; the first of the set of {expected}.")
    tick()
    return offsets, os.path.getsize(path)


def index(
    source: str, output_dir: str, vocab_file: str | None, *, processes: int = 1, overwrite: bool = False
) -> tuple[dict[str, Any], bool]:
    """Prepares a folder that refers to existing TFRecords, unless it is prepared already.

    Args:
      source: folder of the files, or one file.
      output_dir: the prepared folder; created if missing.
      vocab_file: the vocab.txt that they were made with.
      processes, overwrite: as in prepare.Options.

    Returns:
      The content of manifest.json; and whether the folder was prepared already.

    Raises:
      ValueError: a file is damaged or has another layout; or as prepare.prepare.
      Preempted: SIGINT or SIGTERM arrived.
    """
    if vocab_file is None:
        raise InputError(f"--source={source} holds TFRecords: give the --vocab_file that they were made with.")
    train, validation = find(source) or ([], [])
    vocabulary, paths = tokenizer.Vocabulary.load(vocab_file), [*train, *validation]
    # A file may be empty.
    expected = shapes_of(next((path for path in paths if os.path.getsize(path)), paths[0]))
    results: dict[str, tuple[np.ndarray, int]] = {}
    rows = [(os.path.basename(path), os.path.getsize(path)) for path in paths]
    plan = prepared_folder.fingerprint(
        source, "TFRecords with masks", {"vocabulary": bert_manifest.digest(vocabulary)}, [], rows
    )
    splits = {"train": train, **({"validation": validation} if validation else {})}
    with prepared_folder.lock(output_dir):
        prepared_folder.claim(output_dir, plan, record_manifest.paths(output_dir, splits), overwrite)
        if bert_manifest.is_whole(output_dir):
            return bert_manifest.read(output_dir) or {}, True
        tasks = [(path, expected) for path in paths]
        with workers.progress_bar(len(paths), 0, "file") as progress:
            workers.run_tasks(
                go_through,
                tasks,
                processes=processes,
                ended=lambda task, result: results.__setitem__(task[0], result),
                progress=progress,
            )
        manifest = bert_manifest.Manifest(
            masking="static",
            bytes_of_id=2,
            vocabulary=vocabulary,
            splits={
                name: record_manifest.Split.of_files(
                    name, files, [results[path][0] for path in files], [results[path][1] for path in files]
                )
                for name, files in splits.items()
            },
            **dataclasses.asdict(expected),
        )
        counted = target_counts.of(manifest, token_counts.WHILE_PREPARING)
        manifest = dataclasses.replace(manifest, token_counts=counted.counts)
        counts = {name: {"sequences": split.examples} for name, split in manifest.splits.items()}
        bert_manifest.save(output_dir, manifest, about={**plan, "counts": counts})
        return bert_manifest.read(output_dir) or {}, False
