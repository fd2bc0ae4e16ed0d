"""Small parallel texts and prepared sets, made up for the tests."""

import gzip
import random

import numpy as np

from tests.helpers.datasets import made_records
from tfbigbatch.data.translation import manifest, prepare, vocabulary
from tfbigbatch.data.translation.prepare import Options

WORDS = ("der", "Hund", "läuft", "groß", "Haus", "rot", "Baum", "Fisch", "the", "dog", "runs", "tree", "big", "is")


def sentence(number, side):
    """Sentence `number` of the sources (0) or the targets (1): 4 to 20 words."""
    choices = random.Random(2 * number + side)
    return " ".join(choices.choice(WORDS) for _ in range(choices.randint(4, 20))) + "."


def write(folder, name, lines, packed=False):
    """Writes a text of some lines, or bytes as they are; gives its path."""
    content = lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode()
    path = folder / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    return str(path)


def pair(folder, name, count, first=0, packed=False):
    """Writes `count` sentences and their translations; gives (source, target), paths."""
    return tuple(
        write(folder, f"{name}.{side}", [sentence(number, side) for number in range(first, first + count)], packed)
        for side in range(2)
    )


def options(**fields):
    """Options of a vocabulary of 340 pieces."""
    return Options(**{"vocabulary_size": 340, **fields})


def prepared(folder, train, validation=(), test=(), *, name="out", **fields):
    """A prepared set of lists of (source, target); (its folder, what the manifest says, whether it was there)."""
    split = [tuple(zip(*pairs)) or ((), ()) for pairs in (train, validation, test)]
    out = str(folder / name)
    return out, *prepare.Texts(prepare.splits_of(*split), options(**fields)).prepare(out)


def small_vocabulary():
    """A Vocabulary of 340 pieces, of the words above."""
    return vocabulary.learn([sentence(number, side) for number in range(200) for side in range(2)], 340)


def records(folder, pairs, counts, learnt=None, name="train"):
    """A Manifest of pairs of lists of ids, in files of so many records each."""
    split = made_records.write(folder, (prepare.serialized(*one, np.dtype("<u2")) for one in pairs), counts, name)
    lengths = np.array([[len(side) for side in one] for one in pairs], np.uint16).reshape(-1, 2)
    learnt = learnt or small_vocabulary()
    return manifest.Manifest(str(folder), learnt, {name: split}, {name: lengths})
