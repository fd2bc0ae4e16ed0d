"""Shards of BERT's pretraining data: which documents go into which TFRecord file, and writing one."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import corpus, instances, packing, records
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.records import counter_random
from tfbigbatch.data.records import shards as record_shards
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.data.tokenizer import Tokenizer, Vocabulary
from tfbigbatch.errors import InputError

# Text held in memory at once, as ids; its sequences are shuffled together.
_BLOCK_BYTES = 4 << 20
# Small corpora are prepared in parallel too: in at least so many shards, if each has so many documents.
_FEWEST, _DOCUMENTS_EACH = 8, 100
_Document = list[list[int]]


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """The content of a shard: consecutive documents.

    Attributes:
      number: of the shard in its split.
      documents: where they are.
      vocabulary: path of vocab.txt, and its digest.
      settings: how text becomes sequences.
    """

    number: int
    documents: corpus.Documents
    vocabulary: tuple[str, str]
    settings: Settings


def held_out(count: int, fraction: float, seed: int) -> np.ndarray:
    """Which of `count` documents are for validation: bool [count]; at least one of two if the fraction is not 0."""
    held = np.zeros(count, bool)
    if fraction and count > 1:
        size = min(max(1, round(fraction * count)), count - 1)
        held[np.argsort(counter_random.keys(seed, -1, np.arange(count)), kind="stable")[:size]] = True
    return held


def plan(
    documents: corpus.Documents,
    folder: str,
    vocabulary: tuple[str, str],
    settings: Settings,
    *,
    validation_share: float,
    shards: dict[str, int],
    megabytes: float,
) -> list[Shard]:
    """The shards of a corpus: consecutive documents, of about the same total size; their contents are Parts.

    Args:
      documents: of the corpus.
      folder: the prepared folder.
      vocabulary: path of vocab.txt, and its digest.
      settings: how text becomes sequences.
      validation_share: fraction of the documents held out.
      shards: number of shards by split; other splits go by `megabytes`.
      megabytes: approximate text per shard, in 10^6 bytes, counted once for each pass.

    Raises:
      ValueError: a split cannot have so many shards.
    """
    held, planned = held_out(len(documents), validation_share, settings.seed), []
    for split, which in (("train", ~held), ("validation", held)):
        part = documents.only(np.flatnonzero(which))
        if not len(part):
            continue
        ends = np.cumsum(part.length)
        by_size = -(-int(ends[-1]) * settings.dupe_factor // int(megabytes * 1e6))
        count = shards.get(split) or max(1, min(_FEWEST, len(part) // _DOCUMENTS_EACH), min(by_size, len(part)))
        if count > len(part):
            raise InputError(f"--shards={split}:{count}: expected 1 to {len(part):,}, its documents.")
        for number, (first, last) in enumerate(record_shards.portions(ends, count)):
            content = Part(number, part.only(slice(first, last)), vocabulary, settings)
            planned.append(Shard.numbered(split, number, count, folder, content))
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


# Counted in a shard's record: documents, empty ones, ones that gave no sequence and ones with invalid UTF-8 or half
# characters; sentences and tokens of the text; pairs or runs, sequences, tokens in sequences; and pairs with a second
# segment of another document.
COUNTS = (
    "documents",
    "empty",
    "without_sequence",
    "not_utf8",
    "sentences",
    "tokens",
    "texts",
    "sequences",
    "sequence_tokens",
    "random_next",
)


def _records(shard: Shard, counts: dict[str, int], tick: Callable[[], None]) -> Iterator[list[bytes]]:
    """Serialized examples, a list for each block of documents; updates the counts."""
    content: Part = shard.content
    settings, documents = content.settings, content.documents
    tokenizer = _tokenizer(*content.vocabulary, settings.lower_case)
    ends = np.cumsum(documents.length)
    blocks = min(len(documents), -(-int(ends[-1]) // _BLOCK_BYTES))
    before: list[_Document] = []
    stream = 2 * content.number + (shard.split == "validation")
    for block, (first, last) in enumerate(record_shards.portions(ends, blocks)):
        part = documents.only(slice(first, last))
        texts = _tokenised(part, tokenizer, settings, counts, tick)
        found = _sequences(texts, part.number.tolist(), before, tokenizer.vocabulary, settings, counts)
        shuffle = random.Random(f"{settings.seed} {shard.name} {block}").shuffle
        if settings.packed:
            rows = packing.packed(found, settings.max_seq_length)
            counts["sequences"] += len(rows)
            shuffle(rows)
            yield records.packed(rows, bytes_of_id(tokenizer.vocabulary))
            before = [text for text in texts if text]
            continue
        counts["sequences"] += len(found)
        shuffle(found)
        if settings.masking == manifest.DYNAMIC:
            yield records.dynamic(found, settings, bytes_of_id(tokenizer.vocabulary))
        else:
            first_of_block = counts["sequences"] - len(found)
            yield records.static(found, settings, tokenizer.vocabulary, stream, first_of_block)
        before = [text for text in texts if text]


def bytes_of_id(vocabulary: Vocabulary) -> int:
    """Size of an id in a dynamic record."""
    return 2 if len(vocabulary) <= 1 << 16 else 4


@functools.lru_cache(1)
def _tokenizer(path: str, sha256: str, lower_case: bool) -> Tokenizer:
    """The tokenizer, whose cache of words a process keeps over shards; the digest is part of the cache's key."""
    return Tokenizer(Vocabulary.load(path), lower_case)


def _tokenised(
    documents: corpus.Documents,
    tokenizer: Tokenizer,
    settings: Settings,
    counts: dict[str, int],
    tick: Callable[[], None],
) -> list[_Document]:
    """The documents as sentences of ids."""
    found = []
    for text, layout, whole in documents.texts():
        encoded = map(tokenizer.ids, layout.sentences(text, settings.cut_sentences))
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
    texts: list[_Document],
    numbers: list[int],
    before: list[_Document],
    vocabulary: Vocabulary,
    settings: Settings,
    counts: dict[str, int],
) -> list[records.Sequence]:
    """The sequences of some documents.

    Args:
      texts: documents.
      numbers: their numbers in the corpus.
      before: documents for random segments if there is only one document.
    """
    classify, separate = [vocabulary.classify], [vocabulary.separate]
    found: list[records.Sequence] = []
    full = [index for index, text in enumerate(texts) if text]

    for turn in range(settings.dupe_factor):
        for rank, index in enumerate(full):
            # A document's random choices do not depend on the shards.
            choices = random.Random(f"{settings.seed} {numbers[index]} {turn}")
            short, before_it = settings.short_seq_prob, len(found)
            if settings.next_sentence:
                another = _another(texts, full, rank, before)
                length = settings.max_seq_length - 3
                for a, b, label in instances.pairs(
                    texts[index], another, length=length, short_share=short, random=choices
                ):
                    found.append((classify + a + separate + b + separate, len(a) + 2, label))
                    counts["random_next"] += label
            else:
                for text in instances.runs(
                    texts[index], length=settings.max_seq_length - 2, short_share=short, random=choices
                ):
                    found.append((classify + text + separate, len(text) + 2, 0))
            counts["without_sequence"] += turn == 0 and len(found) == before_it
    counts["texts"] += len(found)
    counts["sequence_tokens"] += sum(len(ids) for ids, _, _ in found)
    return found


def _another(
    texts: list[_Document], full: list[int], rank: int, before: list[_Document]
) -> Callable[[random.Random], _Document] | None:
    """Function that draws a document other than the one at `rank` of `full`; None if there is no other."""
    if len(full) > 1:
        # An offset of 1 to len(full) - 1, cyclic: never the document itself.
        return lambda choices: texts[full[(rank + 1 + choices.randrange(len(full) - 1)) % len(full)]]
    return (lambda choices: choices.choice(before)) if before else None
