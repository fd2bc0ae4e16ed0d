"""TFRecords with masks that others made, in the layout of google-research/bert: indexed, and left as they lie.

tf-models-official's create_pretraining_data and NVIDIA's scripts write this layout too; the features' older and
newer names are both understood.
"""

import dataclasses
import os

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.records import index as record_index
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import prepared_folder, tfrecord
from tfbigbatch.errors import InputError
from tfbigbatch.utils import processes as workers

# Files of such a word in their names are for validation.
_VALIDATION = ("eval", "valid", "dev")
_SIZES = ("ids", "mask", "types"), ("positions", "labels", "weights")


def find(source):
    """The TFRecord files of a folder, or the one named: (training, validation), sorted lists of paths.

    Returns:
      None where there is no TFRecord file.

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


def _begins_as_records(path):
    with open(path, "rb") as file:
        header = file.read(tfrecord.HEADER_BYTES)
    length = header[: tfrecord.LENGTH.size]
    return (
        len(header) == tfrecord.HEADER_BYTES
        and tfrecord.CHECKSUM.pack(tfrecord.masked_crc32c(length)) == header[tfrecord.LENGTH.size :]
    )


@dataclasses.dataclass(frozen=True)
class Shapes:
    """What the records of a set hold.

    Attributes:
      keys: bert_manifest.STANDARD_KEYS or NEWER_KEYS.
      max_seq_length: T.
      max_predictions_per_seq: P.
      next_sentence: whether there is a label for pairs.
    """

    keys: dict
    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool


def shapes_of(path, offset=0):
    """The Shapes of the record at a byte of a file.

    Raises:
      ValueError: it is of another layout.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        length = tfrecord.LENGTH.unpack_from(file.read(tfrecord.HEADER_BYTES))[0]
        record = memoryview(file.read(length))
    try:
        counts = dict(tfrecord.counted(record))
    except ValueError as error:
        raise InputError(f"{path}: the record at byte {offset} is no tf.train.Example ({error}).") from None
    for keys in (bert_manifest.STANDARD_KEYS, bert_manifest.NEWER_KEYS):
        lengths, predictions = ({counts.get(keys[name]) for name in names} for names in _SIZES)
        if len(lengths) == len(predictions) == 1 and None not in lengths | predictions:
            return Shapes(keys, lengths.pop(), predictions.pop(), counts.get(keys["next_sentence"]) == 1)
    has = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())) or "no features"
    raise InputError(
        f"{path}: the record at byte {offset} has {has}; expected "
        f"{', '.join(bert_manifest.STANDARD_KEYS.values())}, as many values in the first three, and in the next three."
    )


def go_through(task, tick):
    """Where the records of a file begin, and its size in bytes; its first and last record are looked at.

    Args:
      task: (path, Shapes of the set).
      tick: called at the end.

    Raises:
      ValueError: the file is broken, or a record is of other shapes.
    """
    path, expected = task
    offsets = record_index.offsets(path)
    for offset in {*offsets[:1].tolist(), *offsets[-1:].tolist()}:
        found = shapes_of(path, offset)
        if found != expected:
            raise InputError(f"{path}: the record at byte {offset} is of {found}; the first of the set of {expected}.")
    tick()
    return offsets, os.path.getsize(path)


def index(source, output_dir, vocab_file, *, processes=1, overwrite=False):
    """Makes a prepared folder of TFRecords that stay where they are, or finds it made.

    Args:
      source: folder of the files, or one of them.
      output_dir: the prepared folder; made where it does not exist.
      vocab_file: the vocab.txt that they were made with.
      processes, overwrite: see prepare.Options.

    Returns:
      (all that manifest.json says, as a dictionary; True where the folder held it already).

    Raises:
      ValueError: a file is broken or of another layout; or as prepare.prepare does.
      Preempted: SIGINT or SIGTERM came.
    """
    if vocab_file is None:
        raise InputError(f"--source={source} holds TFRecords: give the --vocab_file that they were made with.")
    train, validation = find(source)
    vocabulary, paths = tokenizer.Vocabulary.load(vocab_file), [*train, *validation]
    # A file may be empty.
    first = next((path for path in paths if os.path.getsize(path)), paths[0])
    expected, results = shapes_of(first), {}
    rows = [(os.path.basename(path), os.path.getsize(path)) for path in paths]
    plan = prepared_folder.fingerprint(
        source, "TFRecords with masks", {"vocabulary": bert_manifest.digest(vocabulary)}, [], rows
    )
    splits = {"train": train, **({"validation": validation} if validation else {})}
    with prepared_folder.lock(output_dir):
        prepared_folder.claim(output_dir, plan, record_manifest.paths(output_dir, splits), overwrite)
        if bert_manifest.is_whole(output_dir):
            return bert_manifest.read(output_dir), True
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
        counts = {name: {"sequences": split.examples} for name, split in manifest.splits.items()}
        bert_manifest.save(output_dir, manifest, about={**plan, "counts": counts})
        return bert_manifest.read(output_dir), False
