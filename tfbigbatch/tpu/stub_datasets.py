"""Stub datasets with the real shapes and no data, for compile-only checks.

A step's shapes depend on its task, and the task on its data: classes, vocabulary, lengths, examples. The manifests
written here equal those of the real data; the record files are sparse and empty.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbigbatch import tasks
from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.vocabulary import Vocabulary
from tfbigbatch.errors import InputError

# ImageNet 2012 (Russakovsky et al. 2015, arXiv:1409.0575, table 2); enough sequences and pairs for any batch, since
# their number depends on the preparation; the Penn Treebank's words with the ends of lines (Zaremba et al. 2014).
_IMAGES = {"train": 1_281_167, "validation": 50_000}
_SEQUENCES = {"train": 1_000_000, "validation": 10_000}
_PAIRS = {"train": 400_000, "validation": 3_000, "test": 3_000}
_WORDS = {"train": 929_589, "valid": 73_760, "test": 82_430}
_DIGITS = {"train": 60_000, "t10k": 10_000}
# Classes of ImageNet; tokens of BERT's English vocabulary (google-research/bert, uncased); pieces of WMT16 English to
# German in MLPerf v0.5, whose sentences have up to 50; words of Mikolov's Penn Treebank.
_CLASSES, _TOKENS, _PIECES, _LONGEST, _VOCABULARY = 1_000, 30_522, 32_000, 50, 10_000
# BERT's masked tokens per sequence by its length.
_PREDICTIONS = {128: 20, 512: 76}
# Any size will do.
_RECORD_BYTES = 16


def write(config: Any, folder: str) -> str | None:
    """Writes the stub dataset for the task of a config, and returns its folder; None for a task that needs none.

    Args:
      config: of an experiment, or of one of its phases.
      folder: empty, or with the data of another phase.

    Raises:
      ValueError: unknown sizes of the task's data.
    """
    if config.task == "digits_lstm" or config.task in tasks.registered():
        # scikit-learn has the digits; a task of the user's brings its data, whose shapes are known nowhere else.
        return None
    if config.task not in _MAKERS:
        raise InputError(
            f"the sizes of {config.task}'s data are unknown: pass --data_dir, a prepared folder. Known tasks: "
            f"{', '.join(sorted(_MAKERS))}."
        )
    _MAKERS[config.task](config, folder)
    return folder


def _splits(folder: str, counts: dict[str, int]) -> dict[str, Split]:
    """Splits of so many empty records."""
    os.makedirs(folder, exist_ok=True)
    splits = {}
    for name, count in counts.items():
        path = os.path.join(folder, f"{name}-00000-of-00001")
        with open(path, "wb") as file:
            file.truncate(count * _RECORD_BYTES)
        splits[name] = Split.of_files(name, [path], [np.arange(count, dtype=np.int64) * _RECORD_BYTES])
    return splits


def _images(config: Any, folder: str) -> None:
    manifest = image_manifest.Manifest(
        classes=tuple(f"class {number}" for number in range(_CLASSES)),
        image_key="image/encoded",
        label_key="image/class/label",
        label_offset=0,
        splits=_splits(folder, _IMAGES),
    )
    image_manifest.save(folder, manifest, {})


def _sequences(config: Any, folder: str) -> None:
    # The folder's name is the length if phases have different ones.
    length = int(config.data.folder) if config.data.folder.isdigit() else 128
    folder = os.path.join(folder, config.data.folder)
    words = (f"word{number}" for number in range(_TOKENS - len(tokenizer.SPECIAL)))
    manifest = bert_manifest.Manifest(
        max_seq_length=length,
        max_predictions_per_seq=_PREDICTIONS.get(length, max(1, round(0.15 * length))),
        next_sentence=True,
        masked=False,
        vocabulary=tokenizer.Vocabulary([*tokenizer.SPECIAL, *words]),
        splits=_splits(folder, _SEQUENCES),
        stored_counts=np.ones(_TOKENS, np.int64),
    )
    bert_manifest.save(folder, manifest, {})


def _pairs(config: Any, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    made = fake.pairs(folder)
    # A sentencepiece model is filled up with pieces (text and score) in protobuf's wire format, since sentencepiece's
    # own message class needs a newer protobuf than TensorFlow allows.
    content = [made.vocabulary.content]
    for number in range(_PIECES - len(made.vocabulary)):
        text = f"piece{number}".encode()
        message = struct.pack("<BB", 0x0A, len(text)) + text + struct.pack("<Bf", 0x15, -1e4)
        content.append(struct.pack("<BB", 0x0A, len(message)) + message)
    random = np.random.RandomState(0)
    manifest = dataclasses.replace(
        made,
        vocabulary=Vocabulary(b"".join(content)),
        splits=_splits(folder, _PAIRS),
        lengths={name: random.randint(1, _LONGEST + 1, size=(n, 2)).astype(np.uint16) for name, n in _PAIRS.items()},
        stored_counts=np.ones(_PIECES, np.int64),
    )
    translation_manifest.save(folder, manifest, {})


def _words(config: Any, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    texts = {}
    for name, count in _WORDS.items():
        # The end of line and <unk> are in the vocabulary too.
        words = [f"w{number % (_VOCABULARY - 2)}" for number in range(count - 1)]
        texts[name] = os.path.join(folder, f"made_up.{name}.txt")
        with open(texts[name], "w", encoding="utf-8") as file:
            file.write(" ".join(words) + "\n")
    corpus.prepare(texts, folder)


def _mnist(config: Any, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, count in _DIGITS.items():
        for kind, header in (("images-idx3", (2051, count, 28, 28)), ("labels-idx1", (2049, count))):
            content = struct.pack(f">{len(header)}I", *header) + bytes(int(np.prod(header[1:])))
            with open(os.path.join(folder, f"{name}-{kind}-ubyte.gz"), "wb") as file:
                file.write(gzip.compress(content, 1))


_MAKERS: dict[str, Callable[[Any, str], None]] = {
    "bert_pretraining": _sequences,
    "gnmt": _pairs,
    "image_classification": _images,
    "lstm_language_model": _words,
    **dict.fromkeys(("mnist_cnn", "mnist_lenet", "mnist_lstm"), _mnist),
}
