"""Preparation of parallel texts: check, clean and write; see `preparation.prepare`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from tfbigbatch.data import stored_tokens, text_files
from tfbigbatch.data.records import preparation
from tfbigbatch.data.records import shards as record_shards
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.data.translation.prepare import shards
from tfbigbatch.data.translation.prepare.shards import VOCABULARY_SIZE, Options
from tfbigbatch.data.translation.vocabulary import Vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils.files import atomic_write

# (source, target) paths by split.
Splits = Mapping[str, Sequence[tuple[str, str]]]
# A vocabulary that was learnt, in the folder's progress.
_LEARNT = "learnt.model"
# Pairs to learn it from, which are held in memory.
_MOST_SENTENCES = 2_000_000
_Files = tuple[Sequence[str], Sequence[str]]


def splits_of(train: _Files, validation: _Files = ((), ()), test: _Files = ((), ())) -> Splits:
    """The splits of some files: training and validation files are concatenated, each test pair is a set of its own.

    Args:
      train, validation, test: (source files, target files).

    Returns:
      (source, target) paths by split: 'train', 'validation', 'test', 'test_2', ...

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


def prepare(
    splits: Splits, output_dir: str, options: Options, say: Callable[[str], object] = lambda line: None
) -> tuple[dict[str, Any], bool]:
    """Prepares a folder of parallel texts, unless it is prepared already.

    The files do not depend on the number of processes. Memory is twelve bytes per pair, and the sentences that the
    vocabulary is trained on.

    Args:
      splits: of `splits_of`.
      output_dir, options, say: see `preparation.prepare`, as for the result and the errors.
    """
    return preparation.prepare(
        Texts(splits, options), output_dir, processes=options.processes, overwrite=options.overwrite, say=say
    )


class Texts(preparation.Preparation):
    """The preparation of parallel texts; raises ValueError where a text or the vocabulary cannot be used."""

    kind, unit, function = translation_manifest.KIND, f" x {shards.GRAIN} lines", staticmethod(shards.write)

    def __init__(self, splits: Splits, options: Options) -> None:
        self.splits = self._pairs = splits
        self._options = options
        self._vocabulary = Vocabulary.load(options.vocabulary) if options.vocabulary else None
        self._paths = list(dict.fromkeys(path for pairs in splits.values() for pair in pairs for path in pair))
        self._scans: dict[str, shards.Scan] = {}
        kept = dataclasses.asdict(options)
        for name in ("processes", "overwrite"):
            del kept[name]
        kept["vocabulary"] = self._vocabulary.digest if self._vocabulary else f"learnt, {self._size}"
        names = {name: [[os.path.basename(path) for path in pair] for pair in pairs] for name, pairs in splits.items()}
        missing = [path for path in self._paths if not os.path.isfile(path)]
        if missing:
            raise InputError(f"{missing[0]}: no such file. Name the files as --source_files=a.en,b.en.gz.")
        rows = [(os.path.basename(path), os.path.getsize(path)) for path in self._paths]
        self.fingerprint = preparation.fingerprint(self._paths[0], self.kind.content, kept, names, rows)

    @property
    def _size(self) -> int:
        """The size of a vocabulary to learn."""
        return self._options.vocabulary_size or VOCABULARY_SIZE

    def is_whole(self, folder: str) -> bool:
        return translation_manifest.is_whole(folder)

    def size(self, task: Shard) -> int:
        return -(-task.content.count // shards.GRAIN)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        # Starting workers takes longer than scanning a small corpus.
        several = self._options.processes if sum(map(os.path.getsize, self._paths)) > 100e6 else 1
        unit = f" x {shards.GRAIN} lines scanned"
        self._scans = scans = preparation.run(shards.scan, self._paths, unit=unit, processes=several)
        for pairs in self._pairs.values():
            for source, target in pairs:
                if scans[source].lines != scans[target].lines:
                    raise InputError(
                        f"{source} has {scans[source].lines:,} lines, {target} has {scans[target].lines:,}: they are "
                        "not parallel. Expected a sentence a line, and its translation in the same line of the other."
                    )
        self._vocabulary = self._vocabulary or self._learnt(folder, say)
        path = stored_tokens.write(
            os.path.join(folder, record_shards.PROGRESS), translation_manifest.VOCABULARY, self._vocabulary.content
        )
        planned = shards.plan(self._pairs, scans, folder, (path, self._vocabulary.digest), self._options)
        found = ", ".join(f"{name} {self._lines(name):,}" for name in self._pairs)
        say(f"lines: {found}; {sum(scan.bytes for scan in scans.values()) / 1e6:,.1f} MB; {len(planned):,} shards")
        return planned

    def _lines(self, split: str) -> int:
        return sum(self._scans[source].lines for source, _ in self._pairs[split])

    def _learnt(self, folder: str, say: Callable[[str], object]) -> Vocabulary:
        """The vocabulary that a command for the same texts learnt before it was stopped, or one that is learnt now."""
        name = f"{self.fingerprint['digest'][:16]}.{_LEARNT}"
        path = preparation.progress_path(folder, name)
        if os.path.exists(path):
            return Vocabulary.load(path)
        say(f"training a vocabulary of {self._size:,} pieces")
        # Every second, third, ... line of all sources, then of all targets.
        step = -(-self._lines("train") // _MOST_SENTENCES)
        sides = (itertools.chain.from_iterable(map(text_files.lines, paths)) for paths in zip(*self._pairs["train"]))
        sample = itertools.chain.from_iterable(itertools.islice(side, 0, None, step) for side in sides)
        learnt = translation_vocabulary.learn(sample, self._size)
        stored_tokens.write(os.path.dirname(path), name, learnt.content)
        return learnt

    def save(self, folder: str, results: dict[Shard, dict[str, Any]], say: Callable[[str], object]) -> None:
        assert self._vocabulary is not None
        lengths, counts, sources = {}, {}, {}
        for split, pairs in self._pairs.items():
            part = {shard: record for shard, record in results.items() if shard.split == split}
            lengths[split] = np.concatenate([files.read_array(shards.lengths_path(shard)) for shard in part])
            counts[split] = {name: sum(record[name] for record in part.values()) for name in shards.COUNTS}
            sources[split] = [
                [{"name": os.path.basename(path), "lines": self._scans[path].lines} for path in pair] for pair in pairs
            ]
            if split != "train":
                # The raw lines, which translations are scored against.
                for side, path in zip(zip(*pairs), translation_manifest.text_paths(folder, split)):
                    with stored_tokens.writing(path):
                        atomic_write(path, functools.partial(_copy, side))
        if not counts["train"]["pairs"]:
            raise InputError(
                "Every training pair was left out: see --max_length and --max_ratio, and look at the texts."
            )
        splits = record_shards.splits_of(results)
        manifest = translation_manifest.Manifest(folder, self._vocabulary, splits, lengths)
        about = {**self.fingerprint, "texts": sources, "counts": counts}
        translation_manifest.save(folder, manifest, sha256=record_shards.digests(results), about=about)


def _copy(paths: Sequence[str], to: BinaryIO) -> None:
    """Concatenates decompressed texts into an open file, each terminated by a line end."""
    for path in paths:
        for line in text_files.raw_lines(path):
            to.write(line.removesuffix(b"\n") + b"\n")
