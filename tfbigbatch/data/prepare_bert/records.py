"""Sequences as records: with their tokens as they are, to be masked anew in each epoch; or with masks for good."""

import array
import functools
import sys

import numpy as np

from tfbigbatch.data import bert_manifest, counter_random, static_masking, tfrecord

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
    code, found = bert_manifest.ID_CODES[bytes_of_id], []
    for ids, first_length, label in sequences:
        tokens = array.array(code, ids)
        if sys.byteorder == "big":
            tokens.byteswap()
        features = {"ids": tokens.tobytes(), "first_length": first_length}
        if settings.next_sentence:
            features["next_sentence_labels"] = label
        found.append(tfrecord.example(features))
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
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = [token for tokens, _, _ in part for token in tokens]
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


def _standard(masked, sequence, settings):
    inputs, positions, labels, count = masked
    tokens, first_length, label = sequence
    padding, size = settings.max_seq_length - len(tokens), len(tokens)
    return tfrecord.example(
        {
            "input_ids": inputs,
            "input_mask": tfrecord.Varints(b"\1" * size + b"\0" * padding),
            "segment_ids": tfrecord.Varints(b"\0" * first_length + b"\1" * (size - first_length) + b"\0" * padding),
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": _weights(count, settings.max_predictions_per_seq),
            # Records of this layout have the feature in any case.
            "next_sentence_labels": label,
        }
    )


@functools.lru_cache(1024)
def _weights(count, length):
    """1 for the first `count` of `length` places."""
    found = array.array("f", [1.0] * count + [0.0] * (length - count))
    if sys.byteorder == "big":
        found.byteswap()
    return found
