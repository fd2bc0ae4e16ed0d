"""Made-up examples of a data set's shapes and dtypes, so that any experiment runs without its data."""

import os

import numpy as np

from tfbigbatch.data import tokenizer
from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import records
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.language_model.corpus import Corpus
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.utils.files import atomic_write

_WORDS, _TEXT_SIZES = 12, (2000, 300, 250)
_SEQUENCES = {"train": 64, "validation": 20}


def text():
    """A Corpus of 12 words and 2,000, 300 and 250 tokens, in which most tokens are told by the one before."""
    random = np.random.RandomState(0)
    parts = []
    for size in _TEXT_SIZES:
        steps = np.where(random.rand(size) < 0.8, 1, random.randint(0, _WORDS, size))
        parts.append((np.cumsum(steps) % _WORDS).astype(np.int32))
    return Corpus(*parts, vocabulary=tuple(f"word{number}" for number in range(_WORDS)))


def pretraining(folder, *, max_seq_length=32, max_predictions_per_seq=5, next_sentence=True):
    """A `bert_manifest.Manifest` of 64 and 20 made-up sequences in `folder`, in which a token tells its neighbours.

    Args:
      folder: where the records go; it must exist.
      max_seq_length, max_predictions_per_seq, next_sentence: see `bert_manifest.Manifest`.
    """
    vocabulary = tokenizer.Vocabulary([*tokenizer.SPECIAL, *(f"word{number}" for number in range(_WORDS))])
    settings = Settings(
        max_seq_length=max_seq_length, max_predictions_per_seq=max_predictions_per_seq, next_sentence=next_sentence
    )
    random, splits = np.random.RandomState(0), {}
    for name, count in _SEQUENCES.items():
        sequences = [_sequence(random, vocabulary, settings) for _ in range(count)]
        frames = list(map(tfrecord.framed, records.dynamic(sequences, settings, 2)))
        path = os.path.join(folder, f"{name}-00000-of-00001")
        atomic_write(path, lambda file, frames=frames: file.write(b"".join(frames)))
        ends = np.cumsum([len(frame) for frame in frames])
        splits[name] = Split.of_files(name, [path], [np.concatenate([[0], ends[:-1]])], ends[-1:])
    return manifest.Manifest(
        masking=manifest.DYNAMIC,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        next_sentence=next_sentence,
        bytes_of_id=2,
        keys=manifest.STANDARD_KEYS,
        vocabulary=vocabulary,
        splits=splits,
    )


def _sequence(random, vocabulary, settings):
    """Words in their order, from a random one on; a second segment goes on with them, or begins anew."""
    special = 3 if settings.next_sentence else 2
    size = random.randint(max(2, settings.max_seq_length // 2), settings.max_seq_length - special + 1)
    first = random.randint(1, size) if settings.next_sentence else size
    words = (np.arange(size) + random.randint(_WORDS)) % _WORDS
    label = int(settings.next_sentence and random.rand() < 0.5)
    # A step of 1 to all but one: never the word that would come next.
    words[first:] = (words[first:] + label * random.randint(1, _WORDS)) % _WORDS
    ids = (words + len(tokenizer.SPECIAL)).tolist()
    tokens = [vocabulary.classify, *ids[:first], vocabulary.separate]
    return tokens + ([*ids[first:], vocabulary.separate] if settings.next_sentence else []), first + 2, label
