"""Preparation of BERT's pretraining data from plain text; resumes after an interruption."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data import token_counts, tokenizer
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert import target_counts
from tfbigbatch.data.bert.prepare import corpus, shards, vocabulary
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.records import manifest as record_manifest
from tfbigbatch.data.records import prepared_folder
from tfbigbatch.data.records import shards as record_shards
from tfbigbatch.data.records.preparation import check_options
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.errors import InputError
from tfbigbatch.utils import processes as workers


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation.

    Attributes:
      settings: how text becomes sequences.
      vocab_file: path of a vocab.txt; None to train a vocabulary.
      train_vocab_size: tokens of the trained vocabulary; None if a file is given.
      validation_share: fraction of the documents held out, in [0, 1); None for `default_share`.
      shards: number of shards by split.
      shard_megabytes: approximate text per shard of other splits, in 10^6 bytes.
      processes: worker processes.
      overwrite: whether to replace what was prepared from another source or with other options.

    Raises:
      ValueError: a value is out of range, or not exactly one of vocab_file and train_vocab_size is given.
    """

    settings: Settings = Settings()
    vocab_file: str | None = None
    train_vocab_size: int | None = None
    validation_share: float | None = None
    shards: dict[str, int] = dataclasses.field(default_factory=dict)
    shard_megabytes: float = 64.0
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if (self.vocab_file is None) == (self.train_vocab_size is None):
            raise InputError("Give either --vocab_file=FILE or --train_vocab_size=NUMBER, and not both.")
        check_options(
            self,
            {
                "train_vocab_size": ((self.train_vocab_size or 100) >= 100, "100 or more"),
                "validation_share": (0 <= (self.validation_share or 0.0) < 1, "0 to less than 1"),
                "shard_megabytes": (self.shard_megabytes > 0, "more than 0"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )


def prepare(
    source: str, output_dir: str, options: Options, say: Callable[[str], object] = lambda line: None
) -> tuple[dict[str, Any], bool]:
    """Prepares a folder of a corpus, unless it is prepared already.

    The files do not depend on the number of processes.

    Args:
      source: path, see corpus.UNDERSTOOD.
      output_dir: the prepared folder; created if missing.
      options: Options.
      say: called with a line about what was found, before the long work begins.

    Returns:
      The content of manifest.json; and whether the folder was prepared already.

    Raises:
      ValueError: source or vocabulary cannot be used; the folder holds something else, is locked or not writable.
      Preempted: SIGINT or SIGTERM arrived; the same call resumes.
    """
    _refuse_inside(source, output_dir)
    names, paths, unused = corpus.find(source)
    given = tokenizer.Vocabulary.load(options.vocab_file) if options.vocab_file else None
    with prepared_folder.lock(output_dir) as work:
        options, plan = _claimed(
            options, output_dir, lambda options: _fingerprint(source, names, paths, options, given)
        )
        prepared_folder.claim(
            output_dir, plan, record_manifest.paths(output_dir, ("train", "validation")), options.overwrite
        )
        if bert_manifest.is_whole(output_dir):
            return bert_manifest.read(output_dir) or {}, True
        documents = _scanned(paths, options.processes)
        if not len(documents):
            raise InputError(f"--source={source} has no text: no document in {len(paths):,} files.")
        trained = given or _trained(documents, os.path.join(work, plan["digest"]), options, say)
        known = bert_manifest.save_vocabulary(output_dir, trained), bert_manifest.digest(trained)
        planned = shards.plan(
            documents,
            output_dir,
            known,
            options.settings,
            validation_share=_share(options, len(documents)),
            shards=options.shards,
            megabytes=options.shard_megabytes,
        )
        say(
            f"{', '.join(sorted(set(documents.layouts)))}: {len(documents):,} documents in "
            f"{len(paths):,} files, {int(documents.length.sum()) / 1e6:,.1f} MB; {len(planned):,} shards"
        )
        say(_held_out(documents, options))
        results = record_shards.write_missing(
            planned,
            shards.write,
            size=lambda shard: len(shard.content.documents),
            unit="document",
            processes=options.processes,
        )
        about = {**plan, "source_files": {"read": len(paths), "unused": unused}}
        _save(output_dir, about, planned, results, trained, options.settings)
        return bert_manifest.read(output_dir) or {}, False


def _refuse_inside(source: str, output_dir: str) -> None:
    outer, inner = os.path.realpath(source), os.path.realpath(output_dir)
    if os.path.commonpath([outer, inner]) == outer:
        raise InputError(
            f"--output_dir={output_dir} lies in --source={source}: vocab.txt would be taken for a part of the "
            "source the next time. Choose a folder outside of it."
        )


def _claimed(
    options: Options, output_dir: str, fingerprint: Callable[[Options], dict[str, Any]]
) -> tuple[Options, dict[str, Any]]:
    """The options and their fingerprint.

    By default earlier versions held out none: a folder that they prepared stays as it is.
    """
    if options.validation_share is None:
        before = dataclasses.replace(options, validation_share=0.0)
        if prepared_folder.is_of(output_dir, fingerprint(before)):
            return before, fingerprint(before)
    return options, fingerprint(options)


def default_share(documents: int) -> float:
    """The fraction of the documents that is held out by default: a hundredth, ten at least, a tenth at most.

    One document would do for masked words; the wrong next sentences are from the other documents of a split.
    """
    return max(1, round(0.01 * documents), min(10, documents // 10)) / max(1, documents)


def _share(options: Options, documents: int) -> float:
    return default_share(documents) if options.validation_share is None else options.validation_share


def _held_out(documents: corpus.Documents, options: Options) -> str:
    fraction = _share(options, len(documents))
    count = int(shards.held_out(len(documents), fraction, options.settings.seed).sum())
    if count:
        return f"validation: {count:,} of {len(documents):,} documents (--validation_share={fraction:.2g}; 0 for none)"
    return (
        f"validation: none of {len(documents):,} document{'s' if len(documents) > 1 else ''}, and training needs some. "
        + ("Pass --validation_share=0.01." if len(documents) > 1 else "Separate documents by blank lines.")
    )


def _fingerprint(
    source: str, names: Sequence[str], paths: Sequence[str], options: Options, given: tokenizer.Vocabulary | None
) -> dict[str, Any]:
    kept = {
        **dataclasses.asdict(options.settings),
        "validation_share": options.validation_share,
        "shards": options.shards,
        "shard_megabytes": options.shard_megabytes,
        "vocabulary": bert_manifest.digest(given) if given else f"trained, {options.train_vocab_size}",
    }
    rows = [(name, os.path.getsize(path)) for name, path in zip(names, paths)]
    return prepared_folder.fingerprint(source, bert_manifest.KIND.content, kept, [], rows)


def _scanned(paths: Sequence[str], processes: int) -> corpus.Documents:
    """The documents of some files."""
    found: dict[str, corpus.Scan] = {}
    # Starting workers takes longer than scanning a small corpus.
    several = processes if sum(map(os.path.getsize, paths)) > 100e6 else 1
    with workers.progress_bar(len(paths), 0, "file") as progress:
        workers.run_tasks(corpus.scan, paths, processes=several, ended=found.__setitem__, progress=progress)
    return corpus.documents(paths, [found[path] for path in paths])


def _trained(
    documents: corpus.Documents, folder: str, options: Options, say: Callable[[str], object]
) -> tokenizer.Vocabulary:
    """The vocabulary that an interrupted command saved in `folder`, or a newly trained one."""
    size = options.train_vocab_size or 0
    if os.path.exists(os.path.join(folder, bert_manifest.VOCABULARY)):
        return tokenizer.Vocabulary.load(os.path.join(folder, bert_manifest.VOCABULARY))
    held = shards.held_out(len(documents), _share(options, len(documents)), options.settings.seed)
    say(f"training a vocabulary of {size:,} tokens")
    trained = vocabulary.train(documents.only(np.flatnonzero(~held)), size, options.settings.lower_case)
    os.makedirs(folder, exist_ok=True)
    bert_manifest.save_vocabulary(folder, trained)
    return trained


def _save(
    output_dir: str,
    plan: dict[str, Any],
    planned: Sequence[Shard],
    results: dict[str, dict[str, Any]],
    vocabulary: tokenizer.Vocabulary,
    settings: Settings,
) -> None:
    """Writes the manifest."""
    counts = {}
    for split in dict.fromkeys(shard.split for shard in planned):
        part = [shard for shard in planned if shard.split == split]
        counts[split] = {name: sum(results[shard.name][name] for shard in part) for name in shards.COUNTS}
        positions = counts[split]["sequences"] * settings.max_seq_length
        counts[split]["padding_share"] = 1 - counts[split]["sequence_tokens"] / positions if positions else 0.0
    if not counts.get("train", {}).get("sequences"):
        raise InputError("The text gave no sequence to train on: it has too few sentences. See --nonext_sentence.")
    manifest = bert_manifest.Manifest(
        masking=settings.masking,
        max_seq_length=settings.max_seq_length,
        max_predictions_per_seq=settings.max_predictions_per_seq,
        next_sentence=settings.next_sentence,
        packed=settings.packed,
        bytes_of_id=shards.bytes_of_id(vocabulary),
        keys=bert_manifest.STANDARD_KEYS,
        vocabulary=vocabulary,
        splits=record_shards.splits_of(planned, results),
    )
    counted = target_counts.of(manifest, token_counts.WHILE_PREPARING)
    manifest = dataclasses.replace(manifest, token_counts=counted.counts)
    about = {**plan, "counts": counts}
    bert_manifest.save(output_dir, manifest, sha256=record_shards.digests(planned, results), about=about)
