"""Made-up pairs of sentences, so that translation runs without its data: the target is the source backwards."""

import os

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation.prepare import shards, vocabulary
from tfbigbatch.utils.files import atomic_write

_WORDS = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe")
# A piece for each word.
_PIECES = 302
_SIZES = {"train": 64, "validation": 20, "test": 20}
_LONGEST = 12


def pairs(folder):
    """A `translation_manifest.Manifest` of 64, 20 and 20 pairs of 1 to 12 words, in 'train', 'validation' and 'test'.

    Args:
      folder: where the records and the texts go; it must exist.

    Raises:
      ValueError: the package sentencepiece is not installed.
    """
    random = np.random.RandomState(0)
    made = {name: [_sentence(random) for _ in range(size)] for name, size in _SIZES.items()}
    learnt = vocabulary.learn([" ".join(words) for words in made["train"]], _PIECES)
    width, splits, lengths = np.dtype("<u2"), {}, {}
    for name, sentences in made.items():
        sides = [[" ".join(words[::step]) for words in sentences] for step in (1, -1)]
        ids = list(zip(*map(learnt.ids, sides)))
        frames = [tfrecord.framed(shards.serialized(*pair, width)) for pair in ids]
        path = os.path.join(folder, f"{name}-00000-of-00001")
        atomic_write(path, lambda file, frames=frames: file.write(b"".join(frames)))
        ends = np.cumsum([len(frame) for frame in frames])
        splits[name] = Split.of_files(name, [path], [np.concatenate([[0], ends[:-1]])], ends[-1:])
        lengths[name] = np.array([[len(side) for side in pair] for pair in ids], np.uint16)
        for text, lines in zip(manifest.text_paths(folder, name), sides):
            atomic_write(text, lambda file, lines=lines: file.write("".join(f"{line}\n" for line in lines).encode()))
    return manifest.Manifest(folder, 2, learnt, splits, lengths)


def _sentence(random):
    return [_WORDS[number] for number in random.randint(0, len(_WORDS), random.randint(1, _LONGEST + 1))]
