"""What goes into which TFRecord file, and writing one of them: whole or not at all."""

import dataclasses
import functools
import itertools
import os

import numpy as np

from tfbigbatch.data.records import shards, tfrecord
from tfbigbatch.data.records.prepared_folder import PROGRESS
from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.data.translation.prepare import texts
from tfbigbatch.data.translation.prepare.settings import REFUSALS, Settings
from tfbigbatch.utils.files import atomic_write

# Small corpora are prepared in parallel too: up to so many shards, where the text has as many grains.
_FEWEST = 8
# Cut sentences that a shard's record names, at most; and pairs that are left out, for each reason.
_NAMED, NAMED_LEFT_OUT = 100, 3


@dataclasses.dataclass(frozen=True, eq=False)
class Shard:
    """A TFRecord file to write.

    Attributes:
      name: of the file, train-00000-of-00128.
      split: 'train', or the name of a held-out set.
      folder: where it goes.
      pair: (source, target), the paths of two texts.
      offsets_in_texts: (source, target), the bytes of the unpacked texts where the shard's lines begin.
      first: the number of its first line, from 1.
      lines: how many.
      vocabulary: (path of vocabulary.model, its digest).
      settings: Settings.
    """

    name: str
    split: str
    folder: str
    pair: tuple
    offsets_in_texts: tuple
    first: int
    lines: int
    vocabulary: tuple
    settings: Settings

    @property
    def path(self):
        """Where the file lies once it is whole."""
        return os.path.join(self.folder, self.name)

    @property
    def record(self):
        """Where it is written down what the file holds, once it is whole."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}.json")

    @property
    def offsets(self):
        """Where it is written down at which byte each record begins, once it is whole."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}.offsets.npy")

    @property
    def lengths(self):
        """Where the lengths of its sentences are: uint16 [records, 2]."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}.lengths.npy")


def plan(pairs, scans, folder, vocabulary, settings, megabytes):
    """The Shards of some texts, in their order: each has lines that lie beside each other.

    Args:
      pairs: dictionary from splits to lists of (source, target), paths.
      scans: dictionary from paths to texts.Scan.
      folder: where they go.
      vocabulary: (path of vocabulary.model, its digest).
      settings: Settings.
      megabytes: about how much text goes into a shard, both languages together, in 10^6 bytes.
    """
    planned = []
    for split, of_split in pairs.items():
        runs = [(pair, *run) for pair in of_split for run in _runs([scans[path] for path in pair], megabytes)]
        for number, (pair, first, last) in enumerate(runs):
            scanned = [scans[path] for path in pair]
            planned.append(
                Shard(
                    name=f"{split}-{number:05d}-of-{len(runs):05d}",
                    split=split,
                    folder=folder,
                    pair=pair,
                    offsets_in_texts=tuple(int(one.places[first]) for one in scanned),
                    first=first * texts.GRAIN + 1,
                    lines=min(last * texts.GRAIN, scanned[0].lines) - first * texts.GRAIN,
                    vocabulary=vocabulary,
                    settings=settings,
                )
            )
    return planned


def _runs(scanned, megabytes):
    """(first, last) grains of the shards of a pair of texts."""
    source, target = scanned
    ends = np.append(source.places[1:], source.bytes) + np.append(target.places[1:], target.bytes)
    by_size = -(-int(ends[-1]) // int(megabytes * 1e6))
    return shards.portions(ends, min(max(by_size, _FEWEST), len(ends)))


# What is counted: lines, the pairs of which are records, and those that are not; the pieces in the records; held-out
# sentences that were cut, and those that the vocabulary does not give back as they are.
COUNTS = ("lines", "pairs", *REFUSALS, "source_pieces", "target_pieces", "cut", "not_reversible")


def write(shard, tick):
    """Writes a shard, and then its record beside it: what it holds, as `shard_files.done` returns it.

    Beside COUNTS, the record names the first sentences that were cut, in 'cut_lines': [path, line, pieces] each; and
    the lines of the first pairs that were left out, in 'left_out_lines', by reason.

    Args:
      shard: Shard.
      tick: called after each grain of lines; what it raises ends the writing, and nothing is left under the shard's
        name.

    Raises:
      ValueError: a file cannot be read or a line is not UTF-8, or the folder cannot be written.
    """
    counts = {**dict.fromkeys(COUNTS, 0), "cut_lines": [], "left_out_lines": {reason: [] for reason in REFUSALS}}
    return shards.write(shard, _records(shard, counts, tick), counts)


def _records(shard, counts, tick):
    """Lists of serialized examples, one for each grain of lines; counts on the way."""
    vocabulary, lengths = _vocabulary(*shard.vocabulary), []
    width = np.dtype(f"<u{manifest.bytes_of_id(vocabulary)}")
    of_grain = _training_pairs if shard.split == "train" else _held_out_pairs
    both = [texts.lines(*at, shard.first, shard.lines) for at in zip(shard.pair, shard.offsets_in_texts)]
    for start in range(shard.first, shard.first + shard.lines, texts.GRAIN):
        sides = [list(map(translation_vocabulary.normalised, itertools.islice(side, texts.GRAIN))) for side in both]
        counts["lines"] += len(sides[0])
        kept = of_grain(shard, sides, start, vocabulary, counts)
        sizes = np.array([[len(side) for side in pair] for pair in kept], np.uint16).reshape(-1, 2)
        counts["pairs"] += len(kept)
        for column, name in enumerate(manifest.SIDES):
            counts[f"{name}_pieces"] += int(sizes[:, column].sum(dtype=np.int64))
        lengths.append(sizes)
        yield [serialized(*pair, width) for pair in kept]
        tick()
    # Before the shard's record, which says that all is there.
    atomic_write(shard.lengths, lambda file: np.save(file, np.concatenate(lengths)))


def serialized(source, target, width):
    """A record: the example of a pair.

    Args:
      source, target: lists of ids.
      width: np.dtype of an id.
    """
    return tfrecord.example(
        {
            "source": np.array(source, width).tobytes(),
            "source_length": len(source),
            "target": np.array(target, width).tobytes(),
            "target_length": len(target),
        }
    )


def _training_pairs(shard, sides, start, vocabulary, counts):
    """The pairs of ids that are trained on; `start` is the number of the first line."""
    kept = []
    for line, pair in enumerate(zip(*map(vocabulary.ids, sides)), start):
        refusal = shard.settings.refused(*map(len, pair))
        if refusal:
            counts[refusal] += 1
            if counts[refusal] <= NAMED_LEFT_OUT:
                counts["left_out_lines"][refusal].append(line)
        else:
            kept.append(pair)
    return kept


def _held_out_pairs(shard, sides, start, vocabulary, counts):
    """All pairs of ids, each sentence cut to max_eval_length; `start` is the number of the first line."""
    most, cut = shard.settings.max_eval_length, []
    for path, side in zip(shard.pair, sides):
        encoded = vocabulary.ids(side)
        for line, (text, ids) in enumerate(zip(side, encoded), start):
            counts["not_reversible"] += vocabulary.text(ids) != text
            if len(ids) > most:
                counts["cut"] += 1
                counts["cut_lines"] += [[path, line, len(ids)]][: _NAMED - len(counts["cut_lines"])]
        cut.append([ids[:most] for ids in encoded])
    return list(zip(*cut))


@functools.lru_cache(1)
def _vocabulary(path, sha256):
    # A process writes many shards.
    del sha256  # another vocabulary at the same path is another one
    return translation_vocabulary.Vocabulary.load(path)
