"""Pretraining sequences from tokenised documents, and their records.

Segment pairs: Devlin et al. 2018 (arXiv:1810.04805), appendix A.2, in the form of google-research/bert's
create_pretraining_data.py: sentences are gathered up to a length; a random part of them is segment A; segment B
is the rest, or in half of the cases text from another document. Without next-sentence prediction, runs of text that do
not cross a document (Liu et al. 2019, arXiv:1907.11692, section 4.2, DOC-SENTENCES).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from tfbigbatch.data.bert import masking
from tfbigbatch.data.records import tfrecord
from tfbigbatch.data.tokenizer import Vocabulary

# Sequences masked in one NumPy call.
_TOGETHER = 256
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
    """The segment pairs of a document.

    Args:
      document: non-empty sentences of ids.
      another: function of `random` that draws another document, for random segments; None if there is no other: then
        segment B always follows A, and a sentence without successor is left out.
      length: maximum tokens of A and B together.
      short_fraction: probability that this document's pairs have a random shorter target length.
      random: source of randomness.

    Yields:
      (a, b, label): non-empty lists of ids, and 1 if B is from another document, else 0.
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
    """Consecutive runs of a document's text, all but the last of full length.

    Args:
      document, random: as in `pairs`.
      length: tokens in a run.
      short_fraction: probability that a run has a random shorter length.
    """
    text, begin = _joined(document), 0
    while begin < len(text):
        size = random.randint(2, length) if random.random() < short_fraction else length
        yield text[begin : begin + size]
        begin += size


def dynamic_record(sequence: Sequence, next_sentence: bool, id_type: np.dtype) -> bytes:
    """The serialized example of a sequence without masks.

    The features: `ids` (bytes: the tokens from [CLS] to the last [SEP], of `id_type`), `first_length` (int: up to and
    with the first [SEP]), and, for pairs, `next_sentence_labels` (int: 1 where the second segment is of another
    document).
    """
    ids, first_length, label = sequence
    features = {"first_length": first_length, "ids": np.array(ids, id_type).tobytes()}
    return tfrecord.example(features | ({"next_sentence_labels": label} if next_sentence else {}))


def static_records(
    sequences: list[Sequence],
    vocabulary: Vocabulary,
    keys: np.ndarray,
    *,
    max_seq_length: int,
    max_predictions: int,
    whole_word: bool,
) -> Iterator[bytes]:
    """The serialized examples in the layout of google-research/bert: padded and masked.

    Args:
      sequences: to mask.
      vocabulary: of the ids.
      keys: uint64 [sequences], see masking.mask.
      max_seq_length, max_predictions: T and P.
      whole_word: mask the tokens of a word together.
    """
    continues = np.array(vocabulary.continues) if whole_word else None
    places = np.arange(max_seq_length)
    for start in range(0, len(sequences), _TOGETHER):
        part = sequences[start : start + _TOGETHER]
        lengths, firsts = np.array([(len(tokens), first_length) for tokens, first_length, _ in part]).T
        there = places < lengths[:, None]
        # One assignment for all sequences.
        ids = np.zeros(there.shape, np.int64)
        ids[there] = np.fromiter(itertools.chain.from_iterable(tokens for tokens, _, _ in part), np.int64)
        may, begins = masking.words(ids, firsts, lengths, continues)
        masked = masking.mask(
            ids,
            may,
            begins,
            keys[start : start + _TOGETHER],
            max_predictions=max_predictions,
            mask_id=vocabulary.mask,
            vocabulary_size=len(vocabulary),
        )
        types = there & (places >= firsts[:, None])
        for (_, _, label), inputs, positions, labels, weights, mask, kinds in zip(part, *masked, there, types):
            yield tfrecord.example(
                {
                    "input_ids": inputs,
                    "input_mask": mask.astype(np.int64),
                    "masked_lm_ids": labels,
                    "masked_lm_positions": positions,
                    "masked_lm_weights": weights.astype(np.float32),
                    # Records of this layout have it in any case.
                    "next_sentence_labels": label,
                    "segment_ids": kinds.astype(np.int64),
                }
            )


def _joined(sentences: Document) -> list[int]:
    if len(sentences) == 1:
        return sentences[0]
    return [token for sentence in sentences for token in sentence]


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
