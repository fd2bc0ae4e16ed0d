"""Prepared pairs of sentences: their vocabulary, lengths and texts, on top of `record_manifest`.

The folder holds, beside the manifest, the indexes and the TFRecord files: vocabulary.model, the sentencepiece model;
train.lengths.npy and the like, uint16 [records, 2], the pieces of each source and target sentence; and of the sets
that are held out, validation.source.txt, validation.reference.txt and the like, the lines as they came.

A record is a tf.train.Example: 'source' and 'target', bytes of little-endian ids without BEGIN and END, and
'source_length' and 'target_length', int64, how many they are.
"""

import dataclasses
import hashlib
import os

import numpy as np

from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.files import atomic_write

KIND = record_manifest.Kind(
    content="translation pairs in TFRecords",
    format=1,
    what="pairs of sentences",
    command=(
        "python tools/prepare_wmt.py --source_files=train.en --target_files=train.de --valid_source_files=valid.en "
        "--valid_target_files=valid.de --test_source_files=test.en --test_target_files=test.de --output_dir=PREPARED"
    ),
)
VOCABULARY = "vocabulary.model"
# A record's features, and what the two sides of a held-out set are called.
SIDES, TEXTS = ("source", "target"), ("source", "reference")


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """What a prepared folder holds.

    Attributes:
      folder: its path.
      bytes_of_id: of a piece in a record, 2 or 4.
      vocabulary: translation_vocabulary.Vocabulary.
      splits: dictionary from 'train' and, where there are such, 'validation', 'test', 'test_2' and so on to
        record_manifest.Split.
      lengths: dictionary from the splits' names to uint16 arrays of [records, 2].
    """

    folder: str
    bytes_of_id: int
    vocabulary: translation_vocabulary.Vocabulary
    splits: dict
    lengths: dict

    def texts(self, split):
        """The lines of a held-out set as they came: (sources, references), lists of texts without their line ends.

        Raises:
          ValueError: the set has no texts, or they are not as many as its records.
        """
        found = []
        for path in text_paths(self.folder, split):
            try:
                with open(path, encoding="utf-8", newline="\n") as file:
                    lines = [line.rstrip("\r\n") for line in file]
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{path} cannot be read ({error}). {KIND.again}") from None
            expected = self.splits[split].examples
            if len(lines) != expected:
                raise InputError(f"{path} has {len(lines):,} lines; the set has {expected:,} sentences. {KIND.again}")
            found.append(lines)
        return tuple(found)


def bytes_of_id(vocabulary):
    """The bytes of a piece in a record."""
    return 2 if len(vocabulary) <= 1 << 16 else 4


def text_paths(folder, split):
    """Where the lines of a held-out set lie: (of the sources, of the references)."""
    return tuple(os.path.join(folder, f"{split}.{kind}.txt") for kind in TEXTS)


def load(folder):
    """The Manifest of a prepared folder, checked against the files' sizes, the indexes, lengths and vocabulary.

    Raises:
      ValueError: as record_manifest.load; or the vocabulary or the lengths are not those of the manifest.
    """

    def build(content, splits):
        path = os.path.join(folder, VOCABULARY)
        vocabulary = translation_vocabulary.Vocabulary.load(path)
        if vocabulary.digest != content["vocabulary_sha256"]:
            raise InputError(
                f"{path} is not the vocabulary that the text was prepared with: it has changed. {KIND.again}"
            )
        lengths = {name: _lengths(folder, name, digest) for name, digest in content["lengths_sha256"].items()}
        return Manifest(folder, content["bytes_of_id"], vocabulary, splits, lengths)

    return record_manifest.load(folder, KIND, build)


def save(folder, manifest, *, sha256=None, about=None):
    """Writes the vocabulary, the lengths, the indexes and then manifest.json; each file whole or not at all.

    Args:
      folder, sha256, about: see record_manifest.save.
      manifest: Manifest.

    Raises:
      ValueError: the folder cannot be written.
    """
    translation_vocabulary.save(manifest.vocabulary, folder, VOCABULARY)
    for name, lengths in manifest.lengths.items():
        path = _lengths_path(folder, name)
        try:
            atomic_write(path, lambda file, lengths=lengths: np.save(file, lengths))
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    fields = {
        "bytes_of_id": manifest.bytes_of_id,
        "vocabulary_sha256": manifest.vocabulary.digest,
        "vocabulary_size": len(manifest.vocabulary),
        "lengths_sha256": {name: _digest(lengths) for name, lengths in manifest.lengths.items()},
    }
    record_manifest.save(folder, KIND, manifest.splits, {**(about or {}), **fields}, sha256=sha256)


def read(folder):
    """All that the manifest says, as a dictionary; None where the folder has no manifest of this kind.

    Raises:
      ValueError: there is one, but it cannot be read or is of a later format.
    """
    return record_manifest.read(folder, KIND)


def is_whole(folder):
    """Whether a folder is a prepared one, with the lines of its held-out sets."""
    try:
        manifest = load(folder)
    except InputError:
        return False
    return all(os.path.exists(path) for name in manifest.splits if name != "train" for path in text_paths(folder, name))


def _lengths_path(folder, split):
    return os.path.join(folder, f"{split}.lengths.npy")


def _lengths(folder, split, digest):
    path = _lengths_path(folder, split)
    try:
        lengths = files.read_array(path)
    except InputError as error:
        raise InputError(f"{error}. {KIND.again}") from None
    if _digest(lengths) != digest:
        raise InputError(f"{path} does not hold the lengths of the records: it is another's or damaged. {KIND.again}")
    return lengths


def _digest(lengths):
    return hashlib.sha256(lengths.astype("<u2").tobytes()).hexdigest()
