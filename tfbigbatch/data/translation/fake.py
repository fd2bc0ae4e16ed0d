"""Fake translation pairs: the target is the source backwards."""

from __future__ import annotations

import numpy as np

from tfbigbatch.data.records.shards import write_split
from tfbigbatch.data.translation import manifest, prepare, vocabulary
from tfbigbatch.utils.files import write_text

_WORDS = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe")
# One piece for each word, besides the special pieces and the bytes.
_PIECES = 302
_SIZES = {"train": 64, "validation": 20, "test": 20}
_LONGEST = 12


def pairs(folder: str) -> manifest.Manifest:
    """The manifest of 64 training, 20 validation and 20 test pairs of 1 to 12 words.

    Args:
      folder: existing folder for the records and texts.

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
        splits[name] = write_split(folder, name, [prepare.serialized(source, target, width) for source, target in ids])
        lengths[name] = np.array([[len(side) for side in pair] for pair in ids], np.uint16)
        for path, lines in zip(manifest.text_paths(folder, name), sides):
            write_text(path, "".join(f"{line}\n" for line in lines))
    return manifest.Manifest(folder, learnt, splits, lengths)


def _sentence(random: np.random.RandomState) -> list[str]:
    return [_WORDS[number] for number in random.randint(0, len(_WORDS), random.randint(1, _LONGEST + 1))]
