"""Preparation of parallel texts: checked, cleaned, and written as ids.

A text has a sentence a line, and its translation in the same line of another file. Nothing here imports TensorFlow,
which would cost each worker process seconds and 400 MB.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tfbigbatch.data import prepared_text, text_files
from tfbigbatch.data.prepared_text import TextPreparation
from tfbigbatch.data.records import shards, tfrecord
from tfbigbatch.data.records.preparation import check_options, option
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.data.translation.vocabulary import Vocabulary, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files

# (source, target) paths by split.
Splits = Mapping[str, Sequence[tuple[str, str]]]
# The special pieces, the bytes, and some characters.
_FEWEST_PIECES = 300
# Pairs to learn a vocabulary from, which are held in memory.
_MOST_SENTENCES = 2_000_000
# Lengths are stored as uint16, and END takes one token.
_LONGEST = (1 << 16) - 2
# Lines in a grain, the unit of division into shards.
GRAIN = 1000
# Approximate text in a shard, both languages together. Small corpora are prepared in parallel too: into at least so
# many shards, if the text has as many grains.
_SHARD_BYTES, _FEWEST = 64_000_000, 8
REFUSALS = {
    "empty": "with an empty sentence",
    "too_long": "with a sentence of more pieces than --max_length",
    "extreme_ratio": "of lengths that differ by more than --max_ratio",
}
"""Words for the reasons to leave a training pair out."""
# Loaded once per process: the path tells the content.
_vocabulary = functools.lru_cache(1)(Vocabulary.load)
# Counted in a shard's record: lines, pairs written and left out, pieces written, held-out sentences truncated.
_COUNTS = ("lines", "pairs", *REFUSALS, "source_pieces", "target_pieces", "cut")
_Files = tuple[Sequence[str], Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation; each is a flag of `tfbigbatch prepare-wmt` with the help that stands here.

    Lengths are in pieces of the vocabulary.

    Raises:
      ValueError: a value is out of range.
    """

    vocabulary: str | None = option(None, "Sentencepiece model, such as the vocabulary.model of a prepared folder.")
    vocabulary_size: int = option(32000, "Number of pieces to learn, where no --vocabulary is given.")
    # MLPerf's GNMT uses 50 and 150; Moses' clean-corpus-n 9, in words.
    max_length: int = option(50, "Largest number of tokens in a training sentence.")
    max_ratio: float = option(9.0, "Largest ratio of the longer to the shorter sentence of a training pair, in tokens.")
    max_eval_length: int = option(150, "Largest number of tokens in a held-out sentence; longer ones are truncated.")
    processes: int = 1

    def __post_init__(self) -> None:
        pieces = self.vocabulary_size >= _FEWEST_PIECES
        check_options(
            self,
            {
                "vocabulary_size": (pieces, f"{_FEWEST_PIECES} or more: 256 are single bytes"),
                "max_length": (1 <= self.max_length <= _LONGEST, f"1 to {_LONGEST}"),
                "max_ratio": (self.max_ratio >= 1, "1 or more"),
                "max_eval_length": (1 <= self.max_eval_length <= _LONGEST, f"1 to {_LONGEST}"),
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


def splits_of(train: _Files, validation: _Files = ((), ()), test: _Files = ((), ())) -> Splits:
    """(source, target) paths by split: 'train', 'validation', 'test', 'test_2', ..., of (source files, target files).

    Training and validation files are concatenated, each test pair is a set of its own.

    Raises:
      ValueError: the lists differ in length, or there is no training text.
    """
    paired = {}
    for prefix, (sources, targets) in (("", train), ("valid_", validation), ("test_", test)):
        if len(sources) != len(targets):
            raise InputError(
                f"--{prefix}source_files names {len(sources)} files, --{prefix}target_files {len(targets)}: expected "
                "a target for each source, in the same order."
            )
        paired[prefix] = list(zip(sources, targets))
    if not paired[""]:
        raise InputError("Give the training text: --source_files=train.en --target_files=train.de.")
    tests = {f"test_{number}" if number > 1 else "test": [pair] for number, pair in enumerate(paired["test_"], 1)}
    return {"train": paired[""], **({"validation": paired["valid_"]} if paired["valid_"] else {}), **tests}


class Scan(NamedTuple):
    """The lines of a text, its decompressed bytes, and those at which each grain begins, int64 [grains]."""

    lines: int
    bytes: int
    offsets: np.ndarray


class Lines(NamedTuple):
    """Consecutive lines of two parallel texts: paths, bytes at which they begin, the first one's number, from 1."""

    pair: tuple[str, str]
    offsets: tuple[int, int]
    first: int
    lines: int


class Texts(TextPreparation):
    """The preparation of parallel texts, of `splits_of`; see `TextPreparation.prepare`.

    Memory is twelve bytes per pair, and the sentences that the vocabulary is trained on.

    Raises:
      ValueError: a text or the vocabulary cannot be used.
    """

    kind, load, unit = translation_manifest.KIND, staticmethod(translation_manifest.load), f" x {GRAIN} lines"
    given, vocabulary_file, vocabulary_of = "vocabulary", translation_manifest.VOCABULARY, Vocabulary.load

    def __init__(self, splits: Splits, options: Options) -> None:
        self._pairs = splits
        paths = list(dict.fromkeys(path for pairs in splits.values() for pair in pairs for path in pair))
        contents = {name: [list(map(os.path.basename, pair)) for pair in pairs] for name, pairs in splits.items()}
        super().__init__(paths[0], options, list(map(os.path.basename, paths)), paths, contents)

    def size(self, task: Shard) -> int:
        return -(-task.content.lines // GRAIN)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        self._scans = scans = self.scanned(scan, f"{self.unit} scanned")
        for source, target in itertools.chain(*self._pairs.values()):
            if scans[source].lines != scans[target].lines:
                raise InputError(
                    f"{source} has {scans[source].lines:,} lines, {target} has {scans[target].lines:,}: they are "
                    "not parallel. Expected a sentence a line, and its translation in the same line of the other."
                )
        counts = {name: sum(scans[source].lines for source, _ in pairs) for name, pairs in self._pairs.items()}

        def learn() -> Vocabulary:
            say(f"training a vocabulary of {self.options.vocabulary_size:,} pieces")
            # Every second, third, ... line of all sources, then of all targets.
            step = -(-counts["train"] // _MOST_SENTENCES)
            sides = (itertools.chain.from_iterable(map(text_files.lines, side)) for side in zip(*self._pairs["train"]))
            sample = itertools.chain.from_iterable(itertools.islice(side, 0, None, step) for side in sides)
            return translation_vocabulary.learn(sample, self.options.vocabulary_size)

        self.set_vocabulary(folder, learn)
        planned = [shard for split in self._pairs for shard in self._plan(split, folder)]
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        say(f"lines: {found}; {sum(scan.bytes for scan in scans.values()) / 1e6:,.1f} MB; {len(planned):,} shards")
        return planned

    def _plan(self, split: str, folder: str) -> list[Shard]:
        """The shards of a split, in text order."""
        parts = []
        for pair in self._pairs[split]:
            source, target = (self._scans[path] for path in pair)
            ends = np.append(source.offsets[1:], source.bytes) + np.append(target.offsets[1:], target.bytes)
            by_size = -(-int(ends[-1]) // _SHARD_BYTES)
            for first, last in shards.portions(ends, min(max(by_size, _FEWEST), len(ends))):
                offsets = int(source.offsets[first]), int(target.offsets[first])
                count = min(last * GRAIN, source.lines) - first * GRAIN
                parts.append(Lines(pair, offsets, first * GRAIN + 1, count))
        return [Shard(split, number, len(parts), folder, content) for number, content in enumerate(parts)]

    def save(self, folder: str, results: dict[Shard, dict[str, Any]]) -> None:
        assert self.vocabulary is not None
        counts = prepared_text.sums(results, _COUNTS)
        if not counts["train"]["pairs"]:
            raise InputError(
                "Every training pair was left out: see --max_length and --max_ratio, and look at the texts."
            )
        for split in self._pairs.keys() - {"train"}:
            # The raw lines, which translations are scored against.
            for side, path in zip(zip(*self._pairs[split]), translation_manifest.text_paths(folder, split)):
                with files.writing_errors(path):
                    files.atomic_write(path, functools.partial(_copy, side))
        lengths = {
            split: np.concatenate([files.read_array(_lengths_path(shard)) for shard in results if shard.split == split])
            for split in self._pairs
        }
        manifest = translation_manifest.Manifest(folder, self.vocabulary, shards.splits_of(results), lengths)
        translation_manifest.save(folder, manifest, {**self.fingerprint, "counts": counts})

    @staticmethod
    def write(vocabulary_path: str, options: Options, shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
        counts = dict.fromkeys(_COUNTS, 0)
        return shards.write(shard, _records(shard, _vocabulary(vocabulary_path), options, counts, tick), counts)


def scan(path: str, tick: Callable[[], None]) -> Scan:
    """Reads a text, perhaps .gz, once; calls `tick` for each grain.

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


def _records(
    shard: Shard, vocabulary: Vocabulary, options: Options, counts: dict[str, int], tick: Callable[[], None]
) -> Iterator[list[bytes]]:
    """Serialized examples, a list for each grain of lines; updates the counts."""
    content, lengths, width = shard.content, [], prepared_text.id_type(len(vocabulary))
    both = [text_files.lines(*at, content.first, content.lines) for at in zip(content.pair, content.offsets)]
    for _ in range(0, content.lines, GRAIN):
        sides = [vocabulary.ids(list(map(normalised, itertools.islice(side, GRAIN)))) for side in both]
        counts["lines"] += len(sides[0])
        kept = _kept(options, shard.split, sides, counts)
        sizes = np.array([[len(side) for side in pair] for pair in kept], np.uint16).reshape(-1, 2)
        counts["pairs"] += len(kept)
        for column, name in enumerate(translation_manifest.SIDES):
            counts[f"{name}_pieces"] += int(sizes[:, column].sum(dtype=np.int64))
        lengths.append(sizes)
        yield [serialized(source, target, width) for source, target in kept]
        tick()
    # Before the shard's record, which marks it as complete.
    files.atomic_write(_lengths_path(shard), lambda file: np.save(file, np.concatenate(lengths)))


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


def _kept(
    options: Options, split: str, sides: list[list[list[int]]], counts: dict[str, int]
) -> list[tuple[list[int], list[int]]]:
    """The pairs to write: for training those that pass the filters, of a held-out set all, truncated."""
    kept = []
    for source, target in zip(*sides):
        refusal = options.refused(len(source), len(target)) if split == "train" else None
        if refusal:
            counts[refusal] += 1
            continue
        if split != "train":
            for ids in (source, target):
                counts["cut"] += len(ids) > options.max_eval_length
                del ids[options.max_eval_length :]
        kept.append((source, target))
    return kept


def _lengths_path(shard: Shard) -> str:
    """The file of the lengths of a shard's sentences: uint16 [records, 2]."""
    return shard.sidecar(".lengths.npy")


def _copy(paths: Sequence[str], to: BinaryIO) -> None:
    """Concatenates decompressed texts into an open file, each terminated by a line end."""
    for path in paths:
        for line in text_files.lines(path):
            to.write(line.removesuffix("\n").encode() + b"\n")
