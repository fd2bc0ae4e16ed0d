"""Preparation of BERT's pretraining data from plain text, or of TFRecords that exist.

Nothing here needs TensorFlow: a process that imports it takes seconds and 400 MB more.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfbigbatch.data import prepared_text
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert import masking
from tfbigbatch.data.bert.prepare import corpus, existing, sequences, vocabulary
from tfbigbatch.data.bert.prepare.corpus import Documents
from tfbigbatch.data.prepared_text import TextPreparation
from tfbigbatch.data.records import preparation, shards
from tfbigbatch.data.records.preparation import check_options, option
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary
from tfbigbatch.errors import InputError

# Text held in memory at once, as ids; its sequences are shuffled together.
_BLOCK_BYTES = 4 << 20
# Approximate text in a shard. Small corpora are prepared in parallel too: in at least so many shards, if each has so
# many documents.
_SHARD_BYTES, _FEWEST, _DOCUMENTS_EACH = 64_000_000, 8, 100
# Counted in a shard's record: documents, empty ones, ones that gave no sequence and ones with invalid UTF-8;
# sentences and tokens of the text; sequences, and tokens in them; and pairs with a second segment of another document.
_COUNTS = (
    *("documents", "empty", "without_sequence", "not_utf8", "sentences", "tokens"),
    *("sequences", "sequence_tokens", "random_next"),
)
# [CLS], a token of each segment, and two [SEP].
_SHORTEST = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation; each is a flag of `tfbigbatch prepare-bert` with the help that stands here.

    Raises:
      ValueError: a value is out of range, or not exactly one of vocab_file and train_vocab_size is given.
    """

    vocab_file: str | None = option(None, "WordPiece vocabulary: one token per line, [PAD] first.")
    train_vocab_size: int | None = option(
        None,
        "In place of --vocab_file: learn a vocabulary of this size from the text (needs the package `tokenizers`).",
    )
    max_seq_length: int = option(128, "Tokens in a sequence, including [CLS] and [SEP].")
    max_predictions_per_seq: int = option(20, "Largest number of masked tokens in a sequence.")
    next_sentence: bool = option(
        True, "Write pairs of segments with a next-sentence label; otherwise spans of one document."
    )
    lower_case: bool = option(True, "Lower-case the text and strip accents, as for uncased models.")
    validation_fraction: float | None = option(
        None,
        "Fraction of the documents to hold out for validation, which training needs; 0 for none. "
        "Default: a hundredth of them, ten documents at least and a tenth at most.",
    )
    seed: int = option(0, "Seed of all random choices.")
    processes: int = 1

    def __post_init__(self) -> None:
        if (self.vocab_file is None) == (self.train_vocab_size is None):
            raise InputError("Give either --vocab_file=FILE or --train_vocab_size=NUMBER, and not both.")
        predictions = 1 <= self.max_predictions_per_seq <= self.max_seq_length
        check_options(
            self,
            {
                "train_vocab_size": ((self.train_vocab_size or 100) >= 100, "100 or more"),
                "max_seq_length": (self.max_seq_length >= _SHORTEST, f"{_SHORTEST} or more"),
                "max_predictions_per_seq": (predictions, f"1 to --max_seq_length={self.max_seq_length}"),
                "validation_fraction": (0 <= (self.validation_fraction or 0.0) < 1, "0 to less than 1"),
            },
        )


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
    if records:
        job = existing.Indexing(source, records, options.vocab_file)
        return preparation.prepare(job, output_dir, processes=options.processes, say=say)
    preparation.check_outside(source, output_dir)
    return Text(source, options).prepare(output_dir, say)


class Text(TextPreparation):
    """The preparation of a corpus; raises ValueError where source or vocabulary cannot be used."""

    kind, load, unit = bert_manifest.KIND, staticmethod(bert_manifest.load), "document"
    given, vocabulary_file, vocabulary_of = "vocab_file", bert_manifest.VOCABULARY, Vocabulary.load

    def __init__(self, source: str, options: Options) -> None:
        self._source = source
        names, paths, self._unused = corpus.find(source)
        super().__init__(source, options, names, paths)

    def size(self, task: Shard) -> int:
        return len(task.content)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        documents = corpus.documents(self.scanned(corpus.scan, "file"))
        if not len(documents):
            raise InputError(f"--source={self._source} has no text: no document in {len(self.paths):,} files.")
        held = held_out(len(documents), self.options)

        def learn() -> Vocabulary:
            say(f"training a vocabulary of {self.options.train_vocab_size:,} tokens")
            training = documents.only(np.flatnonzero(~held))
            return vocabulary.train(training, self.options.train_vocab_size, self.options.lower_case)

        self.set_vocabulary(folder, learn)
        planned = [
            shard
            for split, which in (("train", ~held), ("validation", held))
            for shard in _plan(split, documents.only(np.flatnonzero(which)), folder)
        ]
        say(
            f"{', '.join(sorted(set(documents.layouts)))}: {len(documents):,} documents in "
            f"{len(self.paths):,} files, {int(documents.length.sum()) / 1e6:,.1f} MB; {len(planned):,} shards"
        )
        say(
            f"validation: {held.sum():,} of {len(held):,} documents (--validation_fraction={held.mean():.2g}); "
            "training needs some, and documents are separated by blank lines"
        )
        return planned

    def save(self, folder: str, results: dict[Shard, dict[str, Any]]) -> None:
        assert self.vocabulary is not None
        options, counts = self.options, prepared_text.sums(results, _COUNTS)
        for of_split in counts.values():
            positions = of_split["sequences"] * options.max_seq_length
            of_split["padding"] = 1 - of_split["sequence_tokens"] / positions if positions else 0.0
        if not counts.get("train", {}).get("sequences"):
            raise InputError("The text gave no sequence to train on: it has too few sentences. See --nonext_sentence.")
        lengths, splits = (options.max_seq_length, options.max_predictions_per_seq), shards.splits_of(results)
        manifest = bert_manifest.Manifest(*lengths, options.next_sentence, False, self.vocabulary, splits)
        files = {"read": len(self.paths), "unused": self._unused}
        bert_manifest.save(folder, manifest, {**self.fingerprint, "source_files": files, "counts": counts})

    @staticmethod
    def write(vocabulary_path: str, options: Options, shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
        counts = dict.fromkeys(_COUNTS, 0)
        tokenizer = _tokenizer(vocabulary_path, options.lower_case)
        return shards.write(shard, _records(shard, tokenizer, options, counts, tick), counts)


def held_out(count: int, options: Options) -> np.ndarray:
    """The documents of `count` that are for validation: bool [count].

    By default a hundredth, ten at least and a tenth at most: one would do for masked words, but the wrong next
    sentences are from the other documents of a split. At least one of two if the fraction is not 0.
    """
    held, fraction = np.zeros(count, bool), options.validation_fraction
    size = max(round(0.01 * count), min(10, count // 10)) if fraction is None else round(fraction * count)
    if fraction != 0 and count > 1:
        size = min(max(1, size), count - 1)
        held[np.argsort(masking.keys_of(options.seed, -1, np.arange(count)), kind="stable")[:size]] = True
    return held


def _plan(split: str, documents: Documents, folder: str) -> list[Shard]:
    """The shards of a split: consecutive documents, of about the same total size."""
    if not len(documents):
        return []
    ends = np.cumsum(documents.length)
    by_size = min(-(-int(ends[-1]) // _SHARD_BYTES), len(documents))
    count = max(1, min(_FEWEST, len(documents) // _DOCUMENTS_EACH), by_size)
    return [
        Shard(split, number, count, folder, documents.only(slice(first, last)))
        for number, (first, last) in enumerate(shards.portions(ends, count))
    ]


def _records(
    shard: Shard, tokenizer: Tokenizer, options: Options, counts: dict[str, int], tick: Callable[[], None]
) -> Iterator[list[bytes]]:
    """Serialized examples, a list for each block of documents; updates the counts."""
    documents, id_type = shard.content, prepared_text.id_type(len(tokenizer.vocabulary))
    ends = np.cumsum(documents.length)
    blocks = min(len(documents), -(-int(ends[-1]) // _BLOCK_BYTES))
    for block, (first, last) in enumerate(shards.portions(ends, blocks)):
        part = documents.only(slice(first, last))
        of_documents = sequences.of_documents(
            _tokenised(part, tokenizer, counts, tick),
            part.number.tolist(),
            tokenizer.vocabulary,
            max_seq_length=options.max_seq_length,
            next_sentence=options.next_sentence,
            seed=options.seed,
        )
        found = [sequence for of_document in of_documents for sequence in of_document]
        counts["without_sequence"] += of_documents.count([])
        counts["sequences"] += len(found)
        counts["sequence_tokens"] += sum(len(ids) for ids, _, _ in found)
        counts["random_next"] += sum(label for _, _, label in found)
        random.Random(f"{options.seed} {shard.name} {block}").shuffle(found)
        yield [sequences.serialized(each, options.next_sentence, id_type) for each in found]


@functools.lru_cache(1)
def _tokenizer(path: str, lower_case: bool) -> Tokenizer:
    """The tokenizer of a vocabulary file, cached so that a process keeps its table of words from shard to shard."""
    return Tokenizer(Vocabulary.load(path), lower_case)


def _tokenised(
    documents: Documents, tokenizer: Tokenizer, counts: dict[str, int], tick: Callable[[], None]
) -> list[sequences.Document]:
    """The documents as sentences of ids."""
    found = []
    for text, layout, whole in documents.texts():
        encoded = map(tokenizer.ids, corpus.sentences(layout, text))
        sentences = [sentence for sentence in encoded if sentence]
        counts["documents"] += 1
        counts["empty"] += not sentences
        counts["not_utf8"] += not whole
        counts["sentences"] += len(sentences)
        counts["tokens"] += sum(map(len, sentences))
        found.append(sentences)
        tick()
    return found
