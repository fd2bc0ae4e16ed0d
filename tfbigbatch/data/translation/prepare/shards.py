"""Shards of sentence pairs: the options, which lines go into which TFRecord file, and writing one."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.data.records import shards, tfrecord
from tfbigbatch.data.records.preparation import check_options, option
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.stored_tokens import id_type
from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation.vocabulary import Vocabulary, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

VOCABULARY_SIZE = 32000
# The special pieces, the bytes, and some characters.
_FEWEST_PIECES = 300
# Lengths are stored as uint16, and END takes one token.
_LONGEST = (1 << 16) - 2
REFUSALS = {
    "empty": "with an empty sentence",
    "too_long": "with a sentence of more pieces than --max_length",
    "extreme_ratio": "of lengths that differ by more than --max_ratio",
}
"""Words for the reasons to leave a training pair out."""
# Approximate text in a shard, both languages together.
_SHARD_BYTES = 64_000_000
# Small corpora are prepared in parallel too: into at least so many shards, if the text has as many grains.
_FEWEST = 8
# Counted in a shard's record: lines, pairs written and left out, pieces written, held-out sentences truncated.
COUNTS = ("lines", "pairs", *REFUSALS, "source_pieces", "target_pieces", "cut")
# Lines in a grain, the unit of division into shards.
GRAIN = 1000
# Ids of a source and a target sentence.
_Pair = tuple[list[int], list[int]]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation; each is a flag of `tfbigbatch prepare-wmt` with the help that stands here.

    Lengths are in pieces of the vocabulary.

    Raises:
      ValueError: a value is out of range, or both a vocabulary and a size are given.
    """

    vocabulary: str | None = option(None, "Sentencepiece model, such as the vocabulary.model of a prepared folder.")
    vocabulary_size: int | None = option(
        None, f"In place of --vocabulary: learn one of this size. Default: {VOCABULARY_SIZE:,}."
    )
    # MLPerf's GNMT uses 50 and 150; Moses' clean-corpus-n 9, in words.
    max_length: int = option(50, "Largest number of tokens in a training sentence.")
    max_ratio: float = option(9.0, "Largest ratio of the longer to the shorter sentence of a training pair, in tokens.")
    max_eval_length: int = option(150, "Largest number of tokens in a held-out sentence; longer ones are truncated.")
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.vocabulary is not None and self.vocabulary_size is not None:
            raise InputError("Give either --vocabulary=FILE or --vocabulary_size=NUMBER, and not both.")
        pieces = self.vocabulary_size is None or self.vocabulary_size >= _FEWEST_PIECES
        check_options(
            self,
            {
                "vocabulary_size": (pieces, f"{_FEWEST_PIECES} or more: 256 are single bytes"),
                "max_length": (1 <= self.max_length <= _LONGEST, f"1 to {_LONGEST}"),
                "max_ratio": (self.max_ratio >= 1, "1 or more"),
                "max_eval_length": (1 <= self.max_eval_length <= _LONGEST, f"1 to {_LONGEST}"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )

    def refused(self, source: int, target: int) -> str | None:
        """The reason to leave out a training pair of these numbers of pieces, a key of REFUSALS; None to keep it."""
        if not source or not target:
            return "empty"
        if max(source, target) > self.max_length:
            return "too_long"
        if max(source, target) > self.max_ratio * min(source, target):
            return "extreme_ratio"
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """The size and layout of a text: a sentence per line, and its translation in the same line of another file.

    Attributes:
      lines: number of lines.
      bytes: decompressed size.
      offsets: int64 [grains], byte of the decompressed file at which each grain begins.
    """

    lines: int
    bytes: int
    offsets: np.ndarray


def scan(path: str, tick: Callable[[], None]) -> Scan:
    """Reads a text once.

    Args:
      path: of the text, perhaps .gz.
      tick: called for each grain.

    Raises:
      ValueError: it cannot be read, is empty or UTF-16, or a line is not UTF-8.
    """
    with text_files.opened(path) as file:
        position = text_files.skip_mark(file, path)
        offsets, number = [], 0
        for number, line in enumerate(file, 1):
            if (number - 1) % GRAIN == 0:
                offsets.append(position)
                tick()
            text_files.decoded_line(line, path, number)
            position += len(line)
    if not number:
        raise InputError(f"{path} is empty. Expected a text with a sentence a line.")
    return Scan(number, position, np.array(offsets, np.int64))


@dataclasses.dataclass(frozen=True, eq=False)
class Lines:
    """The content of a shard: consecutive lines of two parallel texts.

    Attributes:
      pair: paths of the source and target text.
      offsets: bytes of the decompressed texts at which the lines begin.
      first: number of the first line, from 1.
      count: number of lines.
      vocabulary: path of vocabulary.model, and its digest.
      options: filters.
    """

    pair: tuple[str, str]
    offsets: tuple[int, int]
    first: int
    count: int
    vocabulary: tuple[str, str]
    options: Options


def plan(
    pairs: Mapping[str, Sequence[tuple[str, str]]],
    scans: Mapping[str, Scan],
    folder: str,
    vocabulary: tuple[str, str],
    options: Options,
) -> list[Shard]:
    """The shards of some texts, in text order; their contents are Lines.

    Args:
      pairs: (source, target) paths by split.
      scans: by path.
      folder: the prepared folder.
      vocabulary: path of vocabulary.model, and its digest.
      options: filters.
    """
    planned = []
    for split, of_split in pairs.items():
        runs = [(pair, *run) for pair in of_split for run in _runs([scans[path] for path in pair])]
        for number, (pair, first, last) in enumerate(runs):
            source, target = (scans[path] for path in pair)
            content = Lines(
                pair=pair,
                offsets=(int(source.offsets[first]), int(target.offsets[first])),
                first=first * GRAIN + 1,
                count=min(last * GRAIN, source.lines) - first * GRAIN,
                vocabulary=vocabulary,
                options=options,
            )
            planned.append(Shard(split, number, len(runs), folder, content))
    return planned


def lengths_path(shard: Shard) -> str:
    """The file of the lengths of a shard's sentences: uint16 [records, 2]."""
    return shard.sidecar(".lengths.npy")


def _runs(scanned: Sequence[Scan]) -> Iterator[tuple[int, int]]:
    """(first, last) grains of the shards of a pair of texts."""
    source, target = scanned
    ends = np.append(source.offsets[1:], source.bytes) + np.append(target.offsets[1:], target.bytes)
    by_size = -(-int(ends[-1]) // _SHARD_BYTES)
    return shards.portions(ends, min(max(by_size, _FEWEST), len(ends)))


def write(shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
    """Writes a shard and its record, with COUNTS.

    Args:
      shard: its content is Lines.
      tick: called after each grain of lines; an error that it raises ends the writing.

    Raises:
      ValueError: a file cannot be read, a line is not UTF-8, or the folder cannot be written.
    """
    counts = dict.fromkeys(COUNTS, 0)
    return shards.write(shard, _records(shard, counts, tick), counts)


def _records(shard: Shard, counts: dict[str, int], tick: Callable[[], None]) -> Iterator[list[bytes]]:
    """Serialized examples, a list for each grain of lines; updates the counts."""
    content: Lines = shard.content
    vocabulary, lengths = _vocabulary(*content.vocabulary), []
    width = id_type(len(vocabulary))
    kept_of = _training_pairs if shard.split == "train" else _held_out_pairs
    both = [text_files.lines(*at, content.first, content.count) for at in zip(content.pair, content.offsets)]
    for _ in range(0, content.count, GRAIN):
        sides = [vocabulary.ids(list(map(normalised, itertools.islice(side, GRAIN)))) for side in both]
        counts["lines"] += len(sides[0])
        kept = kept_of(content.options, sides, counts)
        sizes = np.array([[len(side) for side in pair] for pair in kept], np.uint16).reshape(-1, 2)
        counts["pairs"] += len(kept)
        for column, name in enumerate(manifest.SIDES):
            counts[f"{name}_pieces"] += int(sizes[:, column].sum(dtype=np.int64))
        lengths.append(sizes)
        yield [serialized(source, target, width) for source, target in kept]
        tick()
    # Before the shard's record, which marks it as complete.
    atomic_write(lengths_path(shard), lambda file: np.save(file, np.concatenate(lengths)))


def serialized(source: Sequence[int], target: Sequence[int], width: np.dtype) -> bytes:
    """The serialized example of a pair of id lists; `width` is the dtype of a stored id."""
    return tfrecord.example(
        {
            "source": np.array(source, width).tobytes(),
            "source_length": len(source),
            "target": np.array(target, width).tobytes(),
            "target_length": len(target),
        }
    )


def _training_pairs(options: Options, sides: list[list[list[int]]], counts: dict[str, int]) -> list[_Pair]:
    """The pairs that pass the filters."""
    kept = []
    for source, target in zip(*sides):
        refusal = options.refused(len(source), len(target))
        if refusal:
            counts[refusal] += 1
        else:
            kept.append((source, target))
    return kept


def _held_out_pairs(options: Options, sides: list[list[list[int]]], counts: dict[str, int]) -> list[_Pair]:
    """All pairs, truncated to max_eval_length."""
    for ids in itertools.chain(*sides):
        counts["cut"] += len(ids) > options.max_eval_length
        del ids[options.max_eval_length :]
    return list(zip(*sides))


@functools.lru_cache(1)
def _vocabulary(path: str, sha256: str) -> Vocabulary:
    """The vocabulary, loaded once per process; the digest is part of the cache's key."""
    return Vocabulary.load(path)
