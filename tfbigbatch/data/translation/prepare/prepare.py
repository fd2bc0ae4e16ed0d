"""Preparation of parallel texts: check, clean and write; resumes after an interruption."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data import token_counts
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import prepared_folder
from tfbigbatch.data.records import shards as record_shards
from tfbigbatch.data.records.preparation import check_options
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation import target_counts
from tfbigbatch.data.translation import vocabulary as translation_vocabulary
from tfbigbatch.data.translation.prepare import shards, texts, vocabulary
from tfbigbatch.data.translation.prepare.settings import REFUSALS, Settings
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files
from tfbigbatch.utils import processes as workers
from tfbigbatch.utils.files import atomic_write

VOCABULARY_SIZE = 32000
# The special pieces, the bytes, and some characters.
_FEWEST_PIECES = 300
# (source, target) paths by split.
Splits = Mapping[str, Sequence[tuple[str, str]]]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation.

    Attributes:
      settings: filters of pairs.
      vocabulary: path of a sentencepiece model; None to train one.
      vocabulary_size: pieces of the trained vocabulary; None for VOCABULARY_SIZE, or where a model is given.
      vocabulary_sentences: maximum pairs to train it on: every second, third, ... of a larger text.
      shard_megabytes: approximate text per shard, in 10^6 bytes.
      processes: worker processes.
      overwrite: whether to replace what was prepared from other texts or with other options.

    Raises:
      ValueError: a value is out of range, or both a vocabulary and a size are given.
    """

    settings: Settings = Settings()
    vocabulary: str | None = None
    vocabulary_size: int | None = None
    vocabulary_sentences: int = 2_000_000
    shard_megabytes: float = 64.0
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.vocabulary is not None and self.vocabulary_size is not None:
            raise InputError("Give either --vocabulary=FILE or --vocabulary_size=NUMBER, and not both.")
        pieces = self.vocabulary_size
        check_options(
            self,
            {
                "vocabulary_size": (
                    pieces is None or pieces >= _FEWEST_PIECES,
                    f"{_FEWEST_PIECES} or more: 256 are single bytes",
                ),
                "vocabulary_sentences": (self.vocabulary_sentences >= 1, "1 or more"),
                "shard_megabytes": (self.shard_megabytes > 0, "more than 0"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )


_Files = tuple[Sequence[str], Sequence[str]]


def splits_of(
    train: _Files, validation: _Files = ((), ()), test: _Files = ((), ())
) -> dict[str, list[tuple[str, str]]]:
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
      output_dir: the prepared folder; created if missing.
      options: Options.
      say: called with lines about what was found, the first pairs left out for each reason, and each sentence
        truncated.

    Returns:
      The content of manifest.json; and whether the folder was prepared already.

    Raises:
      ValueError: a text or the vocabulary cannot be used; the folder holds something else, is locked, or cannot be
        written.
      Preempted: SIGINT or SIGTERM arrived; the same call resumes.
    """
    given = translation_vocabulary.Vocabulary.load(options.vocabulary) if options.vocabulary else None
    paths = list(dict.fromkeys(path for pairs in splits.values() for pair in pairs for path in pair))
    plan = _fingerprint(splits, paths, options, given)
    with prepared_folder.lock(output_dir) as work:
        if translation_manifest.is_whole(output_dir):
            content = translation_manifest.read(output_dir)
            if content and content["digest"] == plan["digest"]:
                return content, True
        # Before the folder is claimed: a text that is corrected afterwards has another fingerprint.
        scans = _scanned(paths, options.processes)
        for pairs in splits.values():
            for source, target in pairs:
                texts.check_aligned(source, target, scans)
        prepared_folder.claim(output_dir, plan, record_manifest.paths(output_dir, splits), options.overwrite)
        trained = given or _trained(splits["train"], scans, os.path.join(work, plan["digest"]), options, say)
        path = translation_vocabulary.save(trained, output_dir, translation_manifest.VOCABULARY)
        planned = shards.plan(
            splits, scans, output_dir, (path, trained.digest), options.settings, options.shard_megabytes
        )
        lines = {name: sum(scans[source].lines for source, _ in pairs) for name, pairs in splits.items()}
        found = ", ".join(f"{name} {count:,}" for name, count in lines.items())
        say(f"lines: {found}; {sum(scan.bytes for scan in scans.values()) / 1e6:,.1f} MB; {len(planned):,} shards")
        results = record_shards.write_missing(
            planned,
            shards.write,
            size=lambda shard: -(-shard.content.count // texts.GRAIN),
            unit=f" x {texts.GRAIN} lines",
            processes=options.processes,
        )
        for name, pairs in splits.items():
            if name != "train":
                _copy(pairs, translation_manifest.text_paths(output_dir, name))
        _save(output_dir, plan, splits, scans, planned, results, trained)
        for line in (*_left_out(planned, results), *_truncated(planned, results, options.settings.max_eval_length)):
            say(line)
        return translation_manifest.read(output_dir) or {}, False


def _fingerprint(
    splits: Splits, paths: Sequence[str], options: Options, given: translation_vocabulary.Vocabulary | None
) -> dict[str, Any]:
    kept = {
        **dataclasses.asdict(options.settings),
        "shard_megabytes": options.shard_megabytes,
        "vocabulary": given.digest if given else f"learnt, {options.vocabulary_size or VOCABULARY_SIZE}",
        **({} if given else {"vocabulary_sentences": options.vocabulary_sentences}),
    }
    contents = {name: [[os.path.basename(path) for path in pair] for pair in pairs] for name, pairs in splits.items()}
    rows = [(os.path.basename(path), texts.size(path)) for path in paths]
    return prepared_folder.fingerprint(paths[0], translation_manifest.KIND.content, kept, contents, rows)


def _scanned(paths: Sequence[str], processes: int) -> dict[str, texts.Scan]:
    """The Scans of some texts, by path."""
    found: dict[str, texts.Scan] = {}
    # Starting workers takes longer than scanning a small corpus.
    several = processes if sum(map(texts.size, paths)) > 100e6 else 1
    with workers.progress_bar(None, 0, f" x {texts.GRAIN} lines scanned") as progress:
        workers.run_tasks(texts.scan, paths, processes=several, ended=found.__setitem__, progress=progress)
    return found


def _trained(
    pairs: Sequence[tuple[str, str]],
    scans: Mapping[str, texts.Scan],
    folder: str,
    options: Options,
    say: Callable[[str], object],
) -> translation_vocabulary.Vocabulary:
    """The vocabulary that an interrupted command saved in `folder`, or a newly trained one."""
    path, size = os.path.join(folder, translation_manifest.VOCABULARY), options.vocabulary_size or VOCABULARY_SIZE
    if os.path.exists(path):
        return translation_vocabulary.Vocabulary.load(path)
    say(f"training a vocabulary of {size:,} pieces")
    total = sum(scans[source].lines for source, _ in pairs)
    trained = vocabulary.learn(vocabulary.sample(pairs, -(-total // options.vocabulary_sentences)), size)
    os.makedirs(folder, exist_ok=True)
    translation_vocabulary.save(trained, folder, translation_manifest.VOCABULARY)
    return trained


def _copy(pairs: Sequence[tuple[str, str]], paths: Sequence[str]) -> None:
    """Copies the raw lines of a held-out set beside its records: translations are scored against them."""
    for side, path in enumerate(paths):
        try:
            atomic_write(path, functools.partial(texts.copy, [pair[side] for pair in pairs]))
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None


def _save(
    output_dir: str,
    plan: dict[str, Any],
    splits: Splits,
    scans: Mapping[str, texts.Scan],
    planned: Sequence[Shard],
    results: dict[str, dict[str, Any]],
    vocabulary: translation_vocabulary.Vocabulary,
) -> None:
    """Writes the manifest."""
    lengths, counts, sources = {}, {}, {}
    for split, pairs in splits.items():
        part = [shard for shard in planned if shard.split == split]
        lengths[split] = np.concatenate([files.read_array(shards.lengths_path(shard)) for shard in part])
        counts[split] = {name: sum(results[shard.name][name] for shard in part) for name in shards.COUNTS}
        for side, name in enumerate(translation_manifest.SIDES):
            # Number of sentences of 0, 1, 2, ... pieces.
            counts[split][f"{name}_histogram"] = np.bincount(lengths[split][:, side]).tolist()
        sources[split] = [
            [
                {"name": os.path.basename(path), "lines": scans[path].lines, "sha256": scans[path].sha256}
                for path in pair
            ]
            for pair in pairs
        ]
    if not counts["train"]["pairs"]:
        raise InputError("Every training pair was left out: see --max_length and --max_ratio, and look at the texts.")
    manifest = translation_manifest.Manifest(
        output_dir,
        translation_manifest.bytes_of_id(vocabulary),
        vocabulary,
        record_shards.splits_of(planned, results),
        lengths,
    )
    counted = target_counts.of(manifest, token_counts.WHILE_PREPARING)
    manifest = dataclasses.replace(manifest, token_counts=counted.counts)
    about = {**plan, "texts": sources, "counts": counts}
    translation_manifest.save(output_dir, manifest, sha256=record_shards.digests(planned, results), about=about)


def _left_out(planned: Sequence[Shard], results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Lines that name the first pairs left out, for each reason."""
    for reason, words in REFUSALS.items():
        # Shards of earlier versions name none.
        found = (
            (shard.content.pair, line)
            for shard in planned
            for line in results[shard.name].get("left_out_lines", {}).get(reason, ())
        )
        for (source, target), line in itertools.islice(found, shards.NAMED_LEFT_OUT):
            yield f"left out, {words}: {source} and {target}, line {line}"


def _truncated(planned: Sequence[Shard], results: dict[str, dict[str, Any]], most: int) -> Iterator[str]:
    """Lines that name the held-out sentences truncated, as far as the shards' records do."""
    for shard in planned:
        for path, line, pieces in results[shard.name]["cut_lines"]:
            yield f"warning: {path}, line {line}: {pieces} pieces; cut to --max_eval_length={most}"
