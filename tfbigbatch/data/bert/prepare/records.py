"""Sequences as records: with their tokens as they are, to be masked anew in each epoch; or with masks for good."""

import array
import functools
import itertools
import sys

import numpy as np

from tfbigbatch.data.bert import manifest, static_masking
from tfbigbatch.data.records import counter_random, tfrecord

# Sequences that are masked at once.
_TOGETHER = 256


def dynamic(sequences, settings, bytes_of_id):
    """Records of their tokens, without masks.

    The features: `ids` (bytes: the tokens from [CLS] to the last [SEP], little-endian, of
    `bytes_of_id` bytes each), `first_length` (int: up to and with the first [SEP]), and, for pairs,
    `next_sentence_labels` (int: 1 where the second segment is of another document).

    Args:
      sequences: list of (ids from [CLS] to the last [SEP], length up to and with the first [SEP], label).
      settings: settings.Settings.
      bytes_of_id: 2 or 4.

    Returns:
      list of serialized examples.
    """
    code, found = manifest.ID_CODES[bytes_of_id], []
    for ids, first_length, label in sequences:
        entries = [_number("first_length", first_length), tfrecord.entry("ids", _little_endian(code, ids))]
        if settings.next_sentence:
            entries.append(_number("next_sentence_labels", label))
        found.append(tfrecord.example_of(entries))
    return found


def packed(rows, bytes_of_id):
    """Records of rows of several sequences: their tokens one after the other, without masks.

    The features: `ids` as in `dynamic`, and `lengths` (bytes: the tokens of each sequence, little-endian, of two
    bytes each).

    Args:
      rows: list of lists of sequences, see `dynamic`.
      bytes_of_id: 2 or 4.

    Returns:
      list of serialized examples.
    """
    found = []
    for row in rows:
        tokens = list(itertools.chain.from_iterable(ids for ids, _, _ in row))
        lengths = [len(ids) for ids, _, _ in row]
        content = _little_endian(manifest.ID_CODES[bytes_of_id], tokens)
        entries = tfrecord.entry("ids", content), tfrecord.entry("lengths", _little_endian("H", lengths))
        found.append(tfrecord.example_of(entries))
    return found


def static(sequences, settings, vocabulary, stream, first):
    """Records in the layout of google-research/bert: padded, and with masks for good.

    Args:
      sequences, settings: see `dynamic`.
      vocabulary: wordpiece.Vocabulary.
      stream: names the random numbers of the sequences.
      first: the number of the first sequence in its stream.

    Returns:
      list of serialized examples.
    """
    found, continues = [], None
    if settings.masking == "static_whole_word":
        continues = np.array(vocabulary.continues)
    for start in range(0, len(sequences), _TOGETHER):
        part = sequences[start : start + _TOGETHER]
        ids = np.zeros([len(part), settings.max_seq_length], np.int64)
        lengths, firsts = np.array([(len(tokens), first_length) for tokens, first_length, _ in part]).T
        # One assignment for all: the tokens of all sequences fill the places before each one's end.
        tokens = itertools.chain.from_iterable(tokens for tokens, _, _ in part)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.fromiter(tokens, np.int64, lengths.sum())
        may, begins = static_masking.words(ids, firsts, lengths, continues)
        keys = counter_random.keys(settings.seed, stream, first + start + np.arange(len(part)))
        masked = static_masking.mask(
            ids,
            may,
            begins,
            keys,
            max_predictions=settings.max_predictions_per_seq,
            mask_id=vocabulary.mask,
            vocabulary_size=len(vocabulary),
        )
        rows = zip(*map(tfrecord.varints_of_rows, masked[:3]), masked[3].sum(axis=1).astype(int).tolist())
        found += [_standard(row, sequence, settings) for row, sequence in zip(rows, part)]
    return found


def _little_endian(code, values):
    """The bytes of integers, of one of array.array's types."""
    found = array.array(code, values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def _standard(masked, sequence, settings):
    inputs, positions, labels, count = masked
    tokens, first_length, label = sequence
    length = settings.max_seq_length
    # In the order of the names, as everywhere. What many records share is not worked out for each.
    return tfrecord.example_of(
        (
            tfrecord.entry("input_ids", inputs),
            _ones("input_mask", 0, len(tokens), length),
            tfrecord.entry("masked_lm_ids", labels),
            tfrecord.entry("masked_lm_positions", positions),
            _weights(count, settings.max_predictions_per_seq),
            # Records of this layout have it in any case.
            _number("next_sentence_labels", label),
            _ones("segment_ids", first_length, len(tokens), length),
        )
    )


@functools.lru_cache(8192)
def _ones(name, first, last, length):
    """An entry of 1 in the places [first, last) of `length`, and of 0 in the others."""
    return tfrecord.entry(name, tfrecord.Varints(b"\0" * first + b"\1" * (last - first) + b"\0" * (length - last)))


@functools.lru_cache(1024)
def _weights(count, length):
    """The entry of 1 for the first `count` of `length` places."""
    found = array.array("f", [1.0] * count + [0.0] * (length - count))
    if sys.byteorder == "big":
        found.byteswap()
    return tfrecord.entry("masked_lm_weights", found)


@functools.lru_cache(1024)
def _number(name, value):
    return tfrecord.entry(name, value)
