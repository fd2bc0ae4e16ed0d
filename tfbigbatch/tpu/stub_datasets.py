"""Prepared folders of the public data sets' shapes, in which nothing is to be read: for steps that are only compiled.

A step's shapes come from its task, and a task's from its data: classes, vocabulary, lengths, examples. Here a folder
says what that of the real data would; its records are holes.
"""

import dataclasses
import os
import struct

import numpy as np

from tfbigbatch.errors import InputError

# ImageNet 2012 (Russakovsky et al. 2015, arXiv:1409.0575, table 2).
_IMAGES = {"train": 1_281_167, "validation": 50_000}
_IMAGE_CLASSES = 1_000
# BERT's English vocabulary (google-research/bert, uncased), and its masked tokens of a sequence by its length.
_BERT_TOKENS = 30_522
_BERT_PREDICTIONS = {128: 20, 512: 76}
# A corpus has as many sequences as its preparation repeats it for; enough for any batch here.
_SEQUENCES = {"train": 1_000_000, "validation": 10_000}
# WMT16 English to German as MLPerf v0.5 has it: 32,000 pieces, sentences of up to 50. Its number of pairs plays no
# part in the shapes.
_PIECES, _LONGEST = 32_000, 50
_PAIRS = {"train": 400_000, "validation": 3_000, "test": 3_000}
# The Penn Treebank of Mikolov: words with the ends of lines, and the vocabulary (Zaremba et al. 2014).
_WORDS = {"train": 929_589, "valid": 73_760, "test": 82_430}
_VOCABULARY = 10_000
# No data set's own: a hole that a record might lie in.
_RECORD_BYTES = 16


def prepare(config, folder):
    """Writes what the task of a config reads at full size.

    Args:
      config: of an experiment, or of a phase of one.
      folder: an empty one, or that of another phase.

    Returns:
      The arguments 'data_dir' and 'use_fake_data' of the task.

    Raises:
      ValueError: the sizes of the task's data are not known here.
    """
    if config.task in ("digits_lstm", "mnist_lstm", "mnist_lenet"):
        # Their made-up images have the real ones' shape.
        return {"data_dir": None, "use_fake_data": True}
    if config.task not in _MAKERS:
        raise InputError(
            f"the sizes of {config.task}'s data are not known beforehand: give --data_dir, a prepared folder. Known: "
            f"{', '.join(sorted(_MAKERS))}."
        )
    _MAKERS[config.task](config, folder)
    return {"data_dir": folder, "use_fake_data": False}


def examples(task_name, known):
    """Training examples of an epoch: `known` by the task's data, but where that is made up."""
    return {"digits_lstm": 1_437, "mnist_lstm": 60_000, "mnist_lenet": 60_000}.get(task_name, known)


def _split(folder, name, count):
    """A `record_manifest.Split` of `count` records, all holes."""
    from tfbigbatch.data.records.manifest import Split

    path = os.path.join(folder, f"{name}-00000-of-00001")
    with open(path, "wb") as file:
        file.truncate(count * _RECORD_BYTES)
    return Split.of_files(name, [path], [np.arange(count, dtype=np.int64) * _RECORD_BYTES], [count * _RECORD_BYTES])


def _splits(folder, counts):
    os.makedirs(folder, exist_ok=True)
    return {name: _split(folder, name, count) for name, count in counts.items()}


def _images(config, folder):
    from tfbigbatch.data.images import manifest as image_manifest

    del config
    manifest = image_manifest.Manifest(
        classes=tuple(f"class {number}" for number in range(_IMAGE_CLASSES)),
        image_key="image/encoded",
        label_key="image/class/label",
        label_offset=0,
        splits=_splits(folder, _IMAGES),
    )
    image_manifest.save(folder, manifest)


def _sequences(config, folder):
    from tfbigbatch.data import tokenizer
    from tfbigbatch.data.bert import manifest as bert_manifest

    # Phases of several lengths name their folders by them.
    length = int(config.data.folder) if config.data.folder.isdigit() else 128
    folder = os.path.join(folder, config.data.folder)
    words = (f"word{number}" for number in range(_BERT_TOKENS - len(tokenizer.SPECIAL)))
    manifest = bert_manifest.Manifest(
        masking=bert_manifest.DYNAMIC,
        max_seq_length=length,
        max_predictions_per_seq=_BERT_PREDICTIONS.get(length, max(1, round(0.15 * length))),
        next_sentence=True,
        bytes_of_id=2,
        keys=bert_manifest.STANDARD_KEYS,
        vocabulary=tokenizer.Vocabulary([*tokenizer.SPECIAL, *words]),
        splits=_splits(folder, _SEQUENCES),
    )
    bert_manifest.save(folder, manifest)


def _pairs(config, folder):
    from tfbigbatch.data.translation import (
        fake,
    )
    from tfbigbatch.data.translation import (
        manifest as translation_manifest,
    )
    from tfbigbatch.data.translation import (
        vocabulary as translation_vocabulary,
    )

    del config
    os.makedirs(folder, exist_ok=True)
    made = fake.pairs(folder)
    vocabulary = translation_vocabulary.Vocabulary(_padded(made.vocabulary, _PIECES))
    random = np.random.RandomState(0)
    lengths = {
        name: random.randint(1, _LONGEST + 1, size=(count, 2)).astype(np.uint16) for name, count in _PAIRS.items()
    }
    manifest = dataclasses.replace(made, vocabulary=vocabulary, splits=_splits(folder, _PAIRS), lengths=lengths)
    translation_manifest.save(folder, manifest)


def _padded(vocabulary, size):
    """The bytes of a vocabulary's sentencepiece model, with made-up pieces up to `size`."""
    return vocabulary.model + b"".join(_piece(f"piece{number}") for number in range(size - len(vocabulary)))


def _piece(text):
    """Appended to a sentencepiece model, a piece more: its first field, repeated, of a text and a score.

    In protobuf's wire format: the package's own message class asks for a newer protobuf than TensorFlow allows.
    """
    encoded = text.encode()
    message = struct.pack("<BB", 0x0A, len(encoded)) + encoded + struct.pack("<Bf", 0x15, -1e4)
    return struct.pack("<BB", 0x0A, len(message)) + message


def _words(config, folder):
    from tfbigbatch.data.language_model import corpus

    del config
    os.makedirs(folder, exist_ok=True)
    texts = {}
    for name, count in _WORDS.items():
        # An end of line counts as a word, and in the vocabulary; <unk> is in it too.
        words = [f"w{number % (_VOCABULARY - 2)}" for number in range(count - 1)]
        texts[name] = os.path.join(folder, f"made_up.{name}.txt")
        with open(texts[name], "w", encoding="utf-8") as file:
            file.write(" ".join(words) + "\n")
    corpus.prepare(texts, folder)


_MAKERS = {
    "bert_pretraining": _sequences,
    "gnmt": _pairs,
    "image_classification": _images,
    "lstm_language_model": _words,
}
