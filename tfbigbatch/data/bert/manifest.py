"""A prepared set for BERT's pretraining: its sequences' shapes and vocabulary, on top of `record_manifest`.

The folder holds vocab.txt beside the manifest, the indexes and the TFRecord files.
"""

import dataclasses
import hashlib
import os

from tfbigbatch.data import tokenizer
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

KIND = record_manifest.Kind(
    content="BERT pretraining data in TFRecords",
    format=1,
    what="BERT pretraining data",
    command="tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=PREPARED",
)
VOCABULARY = "vocab.txt"
DYNAMIC = "dynamic"
# The types of Python's arrays for ids of so many bytes.
ID_CODES = {2: "H", 4: "I"}
# Where a record with masks has what: google-research/bert's names, and tf-models-official's newer ones.
STANDARD_KEYS = {
    "ids": "input_ids",
    "mask": "input_mask",
    "types": "segment_ids",
    "positions": "masked_lm_positions",
    "labels": "masked_lm_ids",
    "weights": "masked_lm_weights",
    "next_sentence": "next_sentence_labels",
}
NEWER_KEYS = {**STANDARD_KEYS, "ids": "input_word_ids", "types": "input_type_ids"}


@dataclasses.dataclass(frozen=True, eq=False)
class Manifest:
    """What a prepared folder holds.

    Attributes:
      masking: 'dynamic' where the records have no masks, else how they were made.
      max_seq_length: T, the tokens of a sequence, special ones and padding included.
      max_predictions_per_seq: P, the masked tokens of a sequence at most.
      next_sentence: whether sequences are pairs with a label.
      bytes_of_id: of a token in a dynamic record, 2 or 4.
      keys: dictionary from STANDARD_KEYS' keys to the features of a record with masks.
      vocabulary: wordpiece.Vocabulary.
      splits: dictionary from 'train' and, where there is one, 'validation' to record_manifest.Split.
      packed: whether a sequence holds several texts, to be kept apart.
    """

    masking: str
    max_seq_length: int
    max_predictions_per_seq: int
    next_sentence: bool
    bytes_of_id: int
    keys: dict
    vocabulary: tokenizer.Vocabulary
    splits: dict
    packed: bool = False

    @property
    def dynamic(self):
        """Whether the records have no masks."""
        return self.masking == DYNAMIC


def load(folder):
    """The Manifest of a prepared folder, checked against the files' sizes, the index and the vocabulary.

    Raises:
      ValueError: as record_manifest.load; or vocab.txt is not that of the manifest.
    """

    def build(content, splits):
        path = os.path.join(folder, VOCABULARY)
        vocabulary = tokenizer.Vocabulary.load(path)
        if digest(vocabulary) != content["vocabulary_sha256"]:
            raise InputError(
                f"{path} is not the vocabulary that the text was prepared with: it has changed. {KIND.again}"
            )
        fields = [field.name for field in dataclasses.fields(Manifest) if field.name not in ("vocabulary", "splits")]
        return Manifest(**{name: content[name] for name in fields}, vocabulary=vocabulary, splits=splits)

    return record_manifest.load(folder, KIND, build)


def save(folder, manifest, *, sha256=None, about=None):
    """Writes vocab.txt, the indexes and then manifest.json; each file whole or not at all.

    Args:
      folder, sha256, about: see record_manifest.save.
      manifest: Manifest.

    Raises:
      ValueError: the folder cannot be written.
    """
    save_vocabulary(folder, manifest.vocabulary)
    fields = {
        field.name: getattr(manifest, field.name)
        for field in dataclasses.fields(Manifest)
        if field.name not in ("vocabulary", "splits")
    }
    fields["vocabulary_sha256"] = digest(manifest.vocabulary)
    fields["vocabulary_size"] = len(manifest.vocabulary)
    record_manifest.save(folder, KIND, manifest.splits, {**(about or {}), **fields}, sha256=sha256)


def save_vocabulary(folder, vocabulary):
    """Writes vocab.txt, whole or not at all; gives its path.

    Raises:
      ValueError: the folder cannot be written.
    """
    path = os.path.join(folder, VOCABULARY)
    try:
        atomic_write(path, lambda file: file.write(_text(vocabulary)))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path


def read(folder):
    """All that the manifest says, as a dictionary; None where the folder has no manifest of this kind.

    Raises:
      ValueError: there is one, but it cannot be read or is of a later format.
    """
    return record_manifest.read(folder, KIND)


def is_whole(folder):
    """Whether a folder is a prepared one."""
    try:
        load(folder)
    except InputError:
        return False
    return True


def digest(vocabulary):
    """The SHA-256 of a vocabulary, as text."""
    return hashlib.sha256(_text(vocabulary)).hexdigest()


def _text(vocabulary):
    return "".join(f"{token}\n" for token in vocabulary.tokens).encode()
