"""Shards of BERT's pretraining data: the options, which documents go into which TFRecord file, and writing one."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfbigbatch.data import stored_tokens
from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import corpus, sequences
from tfbigbatch.data.bert.prepare.sequences import Document
from tfbigbatch.data.records import counter_random
from tfbigbatch.data.records import shards as record_shards
from tfbigbatch.data.records.preparation import check_options, option
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary
from tfbigbatch.errors import InputError

# Text held in memory at once, as ids; its sequences are shuffled together.
_BLOCK_BYTES = 4 << 20
# Approximate text in a shard, counted once for each pass.
_SHARD_BYTES = 64_000_000
# Small corpora are prepared in parallel too: in at least so many shards, if each has so many documents.
_FEWEST, _DOCUMENTS_EACH = 8, 100
# Counted in a shard's record: documents, empty ones, ones that gave no sequence and ones with invalid UTF-8;
# sentences and tokens of the text; sequences, and tokens in them; and pairs with a second segment of another document.
COUNTS = (
    "documents",
    "empty",
    "without_sequence",
    "not_utf8",
    "sentences",
    "tokens",
    "sequences",
    "sequence_tokens",
    "random_next",
)
MASKINGS = (manifest.DYNAMIC, "static_token", "static_whole_word")
# [CLS], a token of each segment, and two [SEP].
_SHORTEST = 5
# Probability of a random shorter target length for a sequence, as in the reference code.
_SHORT_FRACTION = 0.1


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
    masking: str = option(
        manifest.DYNAMIC,
        "dynamic: the training pipeline draws masks in each epoch; static_token, static_whole_word: masks are written "
        "to the records.",
    )
    next_sentence: bool = option(
        True, "Write pairs of segments with a next-sentence label; otherwise spans of one document."
    )
    lower_case: bool = option(True, "Lower-case the text and strip accents, as for uncased models.")
    dupe_factor: int = option(1, "Number of passes over the text, each with other random choices.")
    validation_share: float | None = option(
        None,
        "Fraction of the documents to hold out for validation, which training needs; 0 for none. "
        "Default: a hundredth of them, ten documents at least and a tenth at most.",
    )
    shards: dict[str, int] = dataclasses.field(default_factory=dict)
    seed: int = option(0, "Seed of all random choices.")
    processes: int = 1
    overwrite: bool = False

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
                "masking": (self.masking in MASKINGS, f"one of {', '.join(MASKINGS)}"),
                "dupe_factor": (self.dupe_factor >= 1, "1 or more"),
                "validation_share": (0 <= (self.validation_share or 0.0) < 1, "0 to less than 1"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """The content of a shard: consecutive documents.

    Attributes:
      documents: where they are.
      vocabulary: path of vocab.txt, and its digest.
      options: how text becomes sequences.
    """

    documents: corpus.Documents
    vocabulary: tuple[str, str]
    options: Options


def held_out(count: int, options: Options) -> np.ndarray:
    """The documents of `count` that are for validation: bool [count].

    By default a hundredth, ten at least and a tenth at most: one would do for masked words, but the wrong next
    sentences are from the other documents of a split. At least one of two if the fraction is not 0.
    """
    held, fraction = np.zeros(count, bool), options.validation_share
    size = max(round(0.01 * count), min(10, count // 10)) if fraction is None else round(fraction * count)
    if fraction != 0 and count > 1:
        size = min(max(1, size), count - 1)
        held[np.argsort(counter_random.keys(options.seed, -1, np.arange(count)), kind="stable")[:size]] = True
    return held


def plan(documents: corpus.Documents, folder: str, vocabulary: tuple[str, str], options: Options) -> list[Shard]:
    """The shards of a corpus: consecutive documents, of about the same total size; their contents are Parts.

    Args:
      documents: of the corpus.
      folder: the prepared folder.
      vocabulary: path of vocab.txt, and its digest.
      options: perhaps with the numbers of shards by split.

    Raises:
      ValueError: a split cannot have so many shards.
    """
    held, planned = held_out(len(documents), options), []
    for split, which in (("train", ~held), ("validation", held)):
        part = documents.only(np.flatnonzero(which))
        if not len(part):
            continue
        ends = np.cumsum(part.length)
        by_size = -(-int(ends[-1]) * options.dupe_factor // _SHARD_BYTES)
        fewest = min(_FEWEST, len(part) // _DOCUMENTS_EACH)
        count = options.shards.get(split) or max(1, fewest, min(by_size, len(part)))
        if count > len(part):
            raise InputError(f"--shards={split}:{count}: expected 1 to {len(part):,}, its documents.")
        for number, (first, last) in enumerate(record_shards.portions(ends, count)):
            content = Part(part.only(slice(first, last)), vocabulary, options)
            planned.append(Shard(split, number, count, folder, content))
    return planned


def write(shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
    """Writes a shard and its record, with COUNTS.

    Args:
      shard: its content is a Part.
      tick: called after each document; an error that it raises ends the writing.

    Raises:
      ValueError: a file cannot be read, or the folder cannot be written.
    """
    counts = dict.fromkeys(COUNTS, 0)
    return record_shards.write(shard, _records(shard, counts, tick), counts)


def _records(shard: Shard, counts: dict[str, int], tick: Callable[[], None]) -> Iterator[list[bytes]]:
    """Serialized examples, a list for each block of documents; updates the counts."""
    options, documents = shard.content.options, shard.content.documents
    tokenizer = _tokenizer(*shard.content.vocabulary, options.lower_case)
    vocabulary, id_type = tokenizer.vocabulary, stored_tokens.id_type(len(tokenizer.vocabulary))
    ends = np.cumsum(documents.length)
    blocks = min(len(documents), -(-int(ends[-1]) // _BLOCK_BYTES))
    stream = 2 * shard.number + (shard.split == "validation")
    for block, (first, last) in enumerate(record_shards.portions(ends, blocks)):
        part = documents.only(slice(first, last))
        texts = _tokenised(part, tokenizer, options, counts, tick)
        found = _sequences(texts, part.number.tolist(), vocabulary, options, counts)
        shuffle = random.Random(f"{options.seed} {shard.name} {block}").shuffle
        already = counts["sequences"]
        counts["sequences"] += len(found)
        shuffle(found)
        if options.masking == manifest.DYNAMIC:
            yield [sequences.dynamic_record(each, options.next_sentence, id_type) for each in found]
        else:
            keys = counter_random.keys(options.seed, stream, already + np.arange(len(found)))
            yield list(
                sequences.static_records(
                    found,
                    vocabulary,
                    keys,
                    max_seq_length=options.max_seq_length,
                    max_predictions=options.max_predictions_per_seq,
                    whole_word=options.masking == "static_whole_word",
                )
            )


@functools.lru_cache(1)
def _tokenizer(path: str, sha256: str, lower_case: bool) -> Tokenizer:
    """The tokenizer, whose cache of words a process keeps over shards; the digest is part of the cache's key."""
    return Tokenizer(Vocabulary.load(path), lower_case)


def _tokenised(
    documents: corpus.Documents,
    tokenizer: Tokenizer,
    options: Options,
    counts: dict[str, int],
    tick: Callable[[], None],
) -> list[Document]:
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


def _sequences(
    texts: list[Document],
    numbers: list[int],
    vocabulary: Vocabulary,
    options: Options,
    counts: dict[str, int],
) -> list[sequences.Sequence]:
    """The sequences of some documents, whose `numbers` are those in the corpus."""
    classify, separate = [vocabulary.classify], [vocabulary.separate]
    found: list[sequences.Sequence] = []
    full = [index for index, text in enumerate(texts) if text]
    for turn in range(options.dupe_factor):
        for rank, index in enumerate(full):
            # A document's random choices do not depend on the shards.
            choices, before_it = random.Random(f"{options.seed} {numbers[index]} {turn}"), len(found)
            how: dict[str, Any] = {"short_fraction": _SHORT_FRACTION, "random": choices}
            if options.next_sentence:
                another = _another(texts, full, rank)
                for a, b, label in sequences.pairs(texts[index], another, length=options.max_seq_length - 3, **how):
                    found.append((classify + a + separate + b + separate, len(a) + 2, label))
                    counts["random_next"] += label
            else:
                for text in sequences.runs(texts[index], length=options.max_seq_length - 2, **how):
                    found.append((classify + text + separate, len(text) + 2, 0))
            counts["without_sequence"] += turn == 0 and len(found) == before_it
    counts["sequence_tokens"] += sum(len(ids) for ids, _, _ in found)
    return found


def _another(texts: list[Document], full: list[int], rank: int) -> Callable[[random.Random], Document] | None:
    """Function that draws a document other than the one at `rank` of `full`; None if there is no other."""
    if len(full) < 2:
        return None
    # An offset of 1 to len(full) - 1, cyclic: never the document itself.
    return lambda choices: texts[full[(rank + 1 + choices.randrange(len(full) - 1)) % len(full)]]
