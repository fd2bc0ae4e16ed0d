"""Pretraining sequences from tokenised documents, and their records.

Segment pairs: Devlin et al. 2018 (arXiv:1810.04805), appendix A.2, in the form of google-research/bert's
create_pretraining_data.py: sentences are gathered up to a length; a random part of them is segment A; segment B
is the rest, or in half of the cases text from another document. Without next-sentence prediction, runs of text that do
not cross a document (Liu et al. 2019, arXiv:1907.11692, section 4.2, DOC-SENTENCES).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np

from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.tokenizer import Vocabulary

# Probability of a random shorter target length for a sequence, as in the reference code.
_SHORT_FRACTION = 0.1
# Sentences of ids.
Document = list[list[int]]
# Ids from [CLS] to the last [SEP], length up to and including the first [SEP], next-sentence label.
Sequence = tuple[list[int], int, int]


def pairs(
    document: Document,
    another: Callable[[Random], Document] | None,
    *,
    length: int,
    short_fraction: float,
    random: Random,
) -> Iterator[tuple[list[int], list[int], int]]:
    """The segment pairs of a document: (a, b, label), non-empty lists of ids, and 1 if B is of another document.

    Args:
      document: non-empty sentences of ids.
      another: function of `random` that draws another document, for random segments; None if there is no other: then
        segment B always follows A, and a sentence without successor is left out.
      length: maximum tokens of A and B together.
      short_fraction: probability that this document's pairs have a random shorter target length.
      random: source of randomness.
    """
    aim = random.randint(2, length) if random.random() < short_fraction else length
    begin, count = 0, len(document)
    while begin < count:
        end, size = begin, 0
        while end < count and size < aim:
            size += len(document[end])
            end += 1
        gathered = end - begin
        middle = begin + (random.randint(1, gathered - 1) if gathered > 1 else 1)
        a = _joined(document[begin:middle])
        if another and (gathered == 1 or random.random() < 0.5):
            b = _from(another(random), aim - len(a), random)
            yield *_cut(a, b, length, random), 1
            # The sentences that B would have been are used next.
            begin = middle
        elif gathered > 1:
            yield *_cut(a, _joined(document[middle:end]), length, random), 0
            begin = end
        else:
            # A single sentence, and no other document.
            begin = end


def runs(document: Document, *, length: int, short_fraction: float, random: Random) -> Iterator[list[int]]:
    """Consecutive runs of a document's text, of `length` tokens but the last, or with a probability of fewer."""
    text, begin = _joined(document), 0
    while begin < len(text):
        size = random.randint(2, length) if random.random() < short_fraction else length
        yield text[begin : begin + size]
        begin += size


def of_documents(
    texts: list[Document],
    numbers: list[int],
    vocabulary: Vocabulary,
    *,
    max_seq_length: int,
    next_sentence: bool,
    seed: int,
) -> list[list[Sequence]]:
    """The sequences of each document with text.

    Args:
      texts: the documents; random segments are from another one of these.
      numbers: theirs in the corpus.
      vocabulary: of the ids.
      max_seq_length: maximum tokens in a sequence, with special ones.
      next_sentence: pairs of segments, else runs of text.
      seed: of all random choices.
    """
    classify, separate = [vocabulary.classify], [vocabulary.separate]
    full = [(number, text) for number, text in zip(numbers, texts) if text]
    found = []
    for rank, (number, text) in enumerate(full):
        # A document's random choices do not depend on the shards.
        how: dict[str, Any] = {"short_fraction": _SHORT_FRACTION, "random": Random(f"{seed} {number} 0")}
        if next_sentence:
            another = functools.partial(_another, full, rank) if len(full) > 1 else None
            of_document = [
                (classify + a + separate + b + separate, len(a) + 2, label)
                for a, b, label in pairs(text, another, length=max_seq_length - 3, **how)
            ]
        else:
            of_document = [
                (classify + run + separate, len(run) + 2, 0) for run in runs(text, length=max_seq_length - 2, **how)
            ]
        found.append(of_document)
    return found


def serialized(sequence: Sequence, next_sentence: bool, id_type: np.dtype) -> bytes:
    """The serialized example of a sequence.

    The features: `ids` (bytes: the tokens from [CLS] to the last [SEP], of `id_type`), `first_length` (int: up to and
    with the first [SEP]), and, for pairs, `next_sentence_labels` (int: 1 where the second segment is of another
    document).
    """
    ids, first_length, label = sequence
    features = {"first_length": first_length, "ids": np.array(ids, id_type).tobytes()}
    return tfrecord.example(features | ({"next_sentence_labels": label} if next_sentence else {}))


def _another(full: list[tuple[int, Document]], rank: int, random: Random) -> Document:
    """A random document other than the one at `rank`."""
    # An offset of 1 to len(full) - 1, cyclic: never the document itself.
    return full[(rank + 1 + random.randrange(len(full) - 1)) % len(full)][1]


def _joined(sentences: Document) -> list[int]:
    return list(itertools.chain.from_iterable(sentences))


def _from(document: Document, size: int, random: Random) -> list[int]:
    """Text of a document from a random sentence on, of at least `size` tokens if there are so many."""
    found: list[int] = []
    for sentence in document[random.randrange(len(document)) :]:
        found += sentence
        if len(found) >= size:
            break
    return found


def _cut(a: list[int], b: list[int], length: int, random: Random) -> tuple[list[int], list[int]]:
    """Both truncated to `length` tokens in total: the longer one first, at a random end."""
    excess = len(a) + len(b) - length
    if excess <= 0:
        return a, b
    # As if token by token from the longer one, B on a tie.
    from_longer = min(excess, abs(len(a) - len(b)))
    from_a = from_longer if len(a) > len(b) else 0
    from_a, from_b = from_a + (excess - from_longer) // 2, excess - from_a - (excess - from_longer) // 2
    return _shorter(a, from_a, random), _shorter(b, from_b, random)


def _shorter(tokens: list[int], by: int, random: Random) -> list[int]:
    if not by:
        return tokens
    # Each token is dropped from the front with probability 1/2.
    front = random.getrandbits(by).bit_count()
    return tokens[front : len(tokens) - by + front]
