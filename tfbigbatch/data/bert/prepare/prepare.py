"""Preparation of BERT's pretraining data from plain text, or of TFRecords that exist; see `preparation.prepare`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tfbigbatch.data import stored_tokens
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.prepare import corpus, existing, shards, vocabulary
from tfbigbatch.data.bert.prepare.shards import Options
from tfbigbatch.data.records import preparation
from tfbigbatch.data.records import shards as record_shards
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.tokenizer import Vocabulary
from tfbigbatch.errors import InputError

# A vocabulary that was learnt, in the folder's progress.
_LEARNT = "learnt_vocab.txt"


def prepare(
    source: str, output_dir: str, options: Options, say: Callable[[str], object] = lambda line: None
) -> tuple[dict[str, Any], bool]:
    """Prepares a folder of a corpus, unless it is prepared already; existing TFRecords with masks are only indexed.

    The files do not depend on the number of processes.

    Args:
      source: path, see corpus.UNDERSTOOD.
      output_dir, options, say: see `preparation.prepare`, as for the result and the errors.
    """
    records = existing.find(source)
    job: preparation.Preparation
    if records:
        job = existing.Indexing(source, records, options.vocab_file)
    else:
        preparation.check_outside(source, output_dir)
        job = Text(source, options)
    return preparation.prepare(job, output_dir, processes=options.processes, overwrite=options.overwrite, say=say)


class Text(preparation.Preparation):
    """The preparation of a corpus; raises ValueError where source or vocabulary cannot be used."""

    kind, unit, function = bert_manifest.KIND, "document", staticmethod(shards.write)

    def __init__(self, source: str, options: Options) -> None:
        self._source, self._options = source, options
        names, self._paths, self._unused = corpus.find(source)
        self._vocabulary = Vocabulary.load(options.vocab_file) if options.vocab_file else None
        kept = dataclasses.asdict(options)
        for name in ("processes", "overwrite", "vocab_file"):
            del kept[name]
        if self._vocabulary:
            kept["vocabulary"] = self._vocabulary.digest
        rows = [(name, os.path.getsize(path)) for name, path in zip(names, self._paths)]
        self.fingerprint = preparation.fingerprint(source, self.kind.content, kept, [], rows)

    def is_whole(self, folder: str) -> bool:
        return bert_manifest.is_whole(folder)

    def size(self, task: Shard) -> int:
        return len(task.content.documents)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        options, paths = self._options, self._paths
        # Starting workers takes longer than scanning a small corpus.
        several = options.processes if sum(map(os.path.getsize, paths)) > 100e6 else 1
        documents = corpus.documents(preparation.run(corpus.scan, paths, unit="file", processes=several))
        if not len(documents):
            raise InputError(f"--source={self._source} has no text: no document in {len(paths):,} files.")
        held = shards.held_out(len(documents), options)
        self._vocabulary = self._vocabulary or self._learnt(documents.only(np.flatnonzero(~held)), folder, say)
        path = stored_tokens.write(
            os.path.join(folder, record_shards.PROGRESS), bert_manifest.VOCABULARY, self._vocabulary.content
        )
        planned = shards.plan(documents, folder, (path, self._vocabulary.digest), options)
        say(
            f"{', '.join(sorted(set(documents.layouts)))}: {len(documents):,} documents in "
            f"{len(paths):,} files, {int(documents.length.sum()) / 1e6:,.1f} MB; {len(planned):,} shards"
        )
        say(
            f"validation: {held.sum():,} of {len(held):,} documents (--validation_share={held.mean():.2g}); training "
            "needs some, and documents are separated by blank lines"
        )
        return planned

    def _learnt(self, documents: corpus.Documents, folder: str, say: Callable[[str], object]) -> Vocabulary:
        """The vocabulary that a command for the same source learnt before it was stopped, or one that is learnt now."""
        name = f"{self.fingerprint['digest'][:16]}.{_LEARNT}"
        path = preparation.progress_path(folder, name)
        if os.path.exists(path):
            return Vocabulary.load(path)
        size = self._options.train_vocab_size or 0
        say(f"training a vocabulary of {size:,} tokens")
        learnt = vocabulary.train(documents, size, self._options.lower_case)
        stored_tokens.write(os.path.dirname(path), name, learnt.content)
        return learnt

    def save(self, folder: str, results: dict[Shard, dict[str, Any]], say: Callable[[str], object]) -> None:
        assert self._vocabulary is not None
        options, counts = self._options, {}
        for split in dict.fromkeys(shard.split for shard in results):
            part = [record for shard, record in results.items() if shard.split == split]
            counts[split] = {name: sum(record[name] for record in part) for name in shards.COUNTS}
            positions = counts[split]["sequences"] * options.max_seq_length
            counts[split]["padding"] = 1 - counts[split]["sequence_tokens"] / positions if positions else 0.0
        if not counts.get("train", {}).get("sequences"):
            raise InputError("The text gave no sequence to train on: it has too few sentences. See --nonext_sentence.")
        manifest = bert_manifest.Manifest(
            masking=options.masking,
            max_seq_length=options.max_seq_length,
            max_predictions_per_seq=options.max_predictions_per_seq,
            next_sentence=options.next_sentence,
            keys=bert_manifest.STANDARD_KEYS,
            vocabulary=self._vocabulary,
            splits=record_shards.splits_of(results),
        )
        files = {"read": len(self._paths), "unused": self._unused}
        about = {**self.fingerprint, "source_files": files, "counts": counts}
        bert_manifest.save(folder, manifest, sha256=record_shards.digests(results), about=about)
