"""Pretraining instances from tokenised documents: BERT's segment pairs, or runs of one document's text.

Devlin et al. 2018 (arXiv:1810.04805), appendix A.2, in the form of google-research/bert's
create_pretraining_data.py: sentences are gathered up to a length; a random part of them is segment A; segment B
is the rest, or in half of the cases text from another document. Liu et al. 2019 (arXiv:1907.11692), section
4.2: without next-sentence prediction, runs of text that do not cross a document (DOC-SENTENCES).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

_Document = list[list[int]]


def pairs(
    document: _Document,
    another: Callable[[Random], _Document] | None,
    *,
    length: int,
    short_share: float,
    random: Random,
) -> Iterator[tuple[list[int], list[int], int]]:
    """The segment pairs of a document.

    Args:
      document: non-empty sentences of ids.
      another: function of `random` that draws another document, for random segments; None if there is no other: then
        segment B always follows A, and a sentence without successor is left out.
      length: maximum tokens of A and B together.
      short_share: probability that this document's pairs have a random shorter target length.
      random: source of randomness.

    Yields:
      (a, b, label): non-empty lists of ids, and 1 if B is from another document, else 0.
    """
    aim = random.randint(2, length) if random.random() < short_share else length
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


def runs(document: _Document, *, length: int, short_share: float, random: Random) -> Iterator[list[int]]:
    """Consecutive runs of a document's text, all but the last of full length.

    Args:
      document, random: as in `pairs`.
      length: tokens in a run.
      short_share: probability that a run has a random shorter length.
    """
    text, begin = _joined(document), 0
    while begin < len(text):
        size = random.randint(2, length) if random.random() < short_share else length
        yield text[begin : begin + size]
        begin += size


def _joined(sentences: _Document) -> list[int]:
    if len(sentences) == 1:
        return sentences[0]
    return [token for sentence in sentences for token in sentence]


def _from(document: _Document, size: int, random: Random) -> list[int]:
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
