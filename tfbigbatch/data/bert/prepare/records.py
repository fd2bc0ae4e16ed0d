"""Serialisation of sequences: without masks (dynamic masking), or with fixed masks (static masking)."""

from __future__ import annotations

import array
import itertools
import sys

import numpy as np

from tfbigbatch.data.bert import manifest, static_masking
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.records import counter_random, tfrecord
from tfbigbatch.data.tokenizer import Vocabulary

# Sequences masked in one NumPy call.
_TOGETHER = 256

# Ids from [CLS] to the last [SEP], length up to and including the first [SEP], next-sentence label.
Sequence = tuple[list[int], int, int]


def dynamic(sequences: list[Sequence], settings: Settings, bytes_of_id: int) -> list[bytes]:
    """Serialized examples of tokens, without masks.

    The features: `ids` (bytes: the tokens from [CLS] to the last [SEP], little-endian, of
    `bytes_of_id` bytes each), `first_length` (int: up to and with the first [SEP]), and, for pairs,
    `next_sentence_labels` (int: 1 where the second segment is of another document).
    """
    code, found = manifest.ID_CODES[bytes_of_id], []
    for ids, first_length, label in sequences:
        features = {"first_length": first_length, "ids": _little_endian(code, ids)}
        if settings.next_sentence:
            features["next_sentence_labels"] = label
        found.append(tfrecord.example(features))
    return found


def packed(rows: list[list[Sequence]], bytes_of_id: int) -> list[bytes]:
    """Serialized examples of packed rows: the concatenated tokens of several sequences, without masks.

    The features: `ids` as in `dynamic`, and `lengths` (bytes: the tokens of each sequence, little-endian, of two
    bytes each).
    """
    found = []
    for row in rows:
        tokens = list(itertools.chain.from_iterable(ids for ids, _, _ in row))
        lengths = [len(ids) for ids, _, _ in row]
        content = _little_endian(manifest.ID_CODES[bytes_of_id], tokens)
        found.append(tfrecord.example({"ids": content, "lengths": _little_endian("H", lengths)}))
    return found


def static(
    sequences: list[Sequence], settings: Settings, vocabulary: Vocabulary, stream: int, first: int
) -> list[bytes]:
    """Serialized examples in the layout of google-research/bert: padded and masked.

    Args:
      sequences: to mask.
      settings: how.
      vocabulary: of the ids.
      stream: index of the random stream.
      first: number of the first sequence in the stream.
    """
    found: list[bytes] = []
    continues = None
    if settings.masking == "static_whole_word":
        continues = np.array(vocabulary.continues)
    for start in range(0, len(sequences), _TOGETHER):
        part = sequences[start : start + _TOGETHER]
        ids = np.zeros([len(part), settings.max_seq_length], np.int64)
        lengths, firsts = np.array([(len(tokens), first_length) for tokens, first_length, _ in part]).T
        # One assignment for all sequences.
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
        found += [_standard(row, sequence, settings) for row, sequence in zip(zip(*masked), part)]
    return found


def _little_endian(code: str, values: list[int]) -> bytes:
    """Little-endian bytes of integers of an array.array type."""
    found = array.array(code, values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def _standard(masked: tuple[np.ndarray, ...], sequence: Sequence, settings: Settings) -> bytes:
    inputs, positions, labels, weights = masked
    tokens, first_length, label = sequence
    length = np.arange(settings.max_seq_length)
    is_token = length < len(tokens)
    return tfrecord.example(
        {
            "input_ids": inputs,
            "input_mask": is_token.astype(np.int64),
            "masked_lm_ids": labels,
            "masked_lm_positions": positions,
            "masked_lm_weights": weights.astype(np.float32),
            # Records of this layout have it in any case.
            "next_sentence_labels": label,
            "segment_ids": (is_token & (length >= first_length)).astype(np.int64),
        }
    )
