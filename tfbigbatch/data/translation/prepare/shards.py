"""Shards of sentence pairs: which lines go into which TFRecord file, and writing one."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data import text_files
from tfbigbatch.data.records import shards, tfrecord
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.stored_tokens import id_type
from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation.prepare import texts
from tfbigbatch.data.translation.prepare.options import REFUSALS, Options
from tfbigbatch.data.translation.vocabulary import Vocabulary, normalised
from tfbigbatch.utils.files import atomic_write

# Approximate text in a shard, both languages together.
_SHARD_BYTES = 64_000_000
# Small corpora are prepared in parallel too: into at least so many shards, if the text has as many grains.
_FEWEST = 8
# Counted in a shard's record: lines, pairs written and left out, pieces written, held-out sentences truncated.
COUNTS = ("lines", "pairs", *REFUSALS, "source_pieces", "target_pieces", "cut")
# Sentences and pairs that a shard's record names, for each reason.
_NAMED = {"cut": 100, **dict.fromkeys(REFUSALS, 3)}
# Ids of a source and a target sentence.
_Pair = tuple[list[int], list[int]]


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
    scans: Mapping[str, texts.Scan],
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
                first=first * texts.GRAIN + 1,
                count=min(last * texts.GRAIN, source.lines) - first * texts.GRAIN,
                vocabulary=vocabulary,
                options=options,
            )
            planned.append(Shard(split, number, len(runs), folder, content))
    return planned


def lengths_path(shard: Shard) -> str:
    """The file of the lengths of a shard's sentences: uint16 [records, 2]."""
    return shard.sidecar(".lengths.npy")


def _runs(scanned: Sequence[texts.Scan]) -> Iterator[tuple[int, int]]:
    """(first, last) grains of the shards of a pair of texts."""
    source, target = scanned
    ends = np.append(source.offsets[1:], source.bytes) + np.append(target.offsets[1:], target.bytes)
    by_size = -(-int(ends[-1]) // _SHARD_BYTES)
    return shards.portions(ends, min(max(by_size, _FEWEST), len(ends)))


def write(shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
    """Writes a shard and its record: COUNTS, and 'named', for each reason [path, line, pieces of the longer sentence]
    of the first training pairs left out and the first held-out sentences truncated.

    Args:
      shard: its content is Lines.
      tick: called after each grain of lines; an error that it raises ends the writing.

    Raises:
      ValueError: a file cannot be read, a line is not UTF-8, or the folder cannot be written.
    """
    counts = {**dict.fromkeys(COUNTS, 0), "named": {reason: [] for reason in _NAMED}}
    return shards.write(shard, _records(shard, counts, tick), counts)


def _records(shard: Shard, counts: dict[str, Any], tick: Callable[[], None]) -> Iterator[list[bytes]]:
    """Serialized examples, a list for each grain of lines; updates the counts."""
    content: Lines = shard.content
    vocabulary, lengths = _vocabulary(*content.vocabulary), []
    width = id_type(len(vocabulary))
    kept_of = _training_pairs if shard.split == "train" else _held_out_pairs
    both = [text_files.lines(*at, content.first, content.count) for at in zip(content.pair, content.offsets)]
    for start in range(content.first, content.first + content.count, texts.GRAIN):
        sides = [vocabulary.ids(list(map(normalised, itertools.islice(side, texts.GRAIN)))) for side in both]
        counts["lines"] += len(sides[0])
        kept = kept_of(content, sides, start, counts)
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


def _training_pairs(content: Lines, sides: list[list[list[int]]], start: int, counts: dict[str, Any]) -> list[_Pair]:
    """The pairs that pass the filters; `start` is the number of the first line."""
    kept = []
    for line, (source, target) in enumerate(zip(*sides), start):
        refusal = content.options.refused(len(source), len(target))
        if refusal:
            _count(counts, refusal, content.pair[0], line, max(len(source), len(target)))
        else:
            kept.append((source, target))
    return kept


def _held_out_pairs(content: Lines, sides: list[list[list[int]]], start: int, counts: dict[str, Any]) -> list[_Pair]:
    """All pairs, truncated to max_eval_length; `start` is the number of the first line."""
    most = content.options.max_eval_length
    for path, side in zip(content.pair, sides):
        for line, ids in enumerate(side, start):
            if len(ids) > most:
                _count(counts, "cut", path, line, len(ids))
                del ids[most:]
    return list(zip(*sides))


def _count(counts: dict[str, Any], reason: str, path: str, line: int, pieces: int) -> None:
    counts[reason] += 1
    if counts[reason] <= _NAMED[reason]:
        counts["named"][reason].append([path, line, pieces])


@functools.lru_cache(1)
def _vocabulary(path: str, sha256: str) -> Vocabulary:
    """The vocabulary, loaded once per process; the digest is part of the cache's key."""
    return Vocabulary.load(path)
