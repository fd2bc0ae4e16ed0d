"""BERT pretraining data in TFRecord files as a Dataset: read, shuffle, batch, then parse and mask whole batches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.bert import masking
from tfbigbatch.data.bert.manifest import NEXT_SENTENCE, OF_PREDICTIONS, OF_TOKENS, Manifest
from tfbigbatch.data.records import skip_bad
from tfbigbatch.data.records.dataset import RecordDataset
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError

# Seed and epoch of evaluation's masks, which never change.
_EVALUATION_SEED, _EVALUATION_EPOCH = 0, -1


class BertRecords(RecordDataset):
    """One split of prepared pretraining data.

    Batches are dictionaries (features, labels, weights), for n = batch_size / replicas sequences of T tokens with at
    most P masked ones:

    - features, int32: 'input_word_ids', 'input_mask' (1 for tokens, 0 for padding) and 'input_type_ids' (1 in segment
      B), [n, T]; 'masked_lm_positions' [n, P].
    - labels, int32: 'masked_lm' [n, P], the tokens at these positions; for pairs 'next_sentence' [n], 1 if segment B is
      of another document.
    - weights, float32: 'masked_lm' [n, P], 0 for unused positions; 'next_sentence' [n], 0 for a bad record or padding.

    Evaluation always uses the same masks.

    Args:
      split: of the manifest.
      manifest: of the prepared folder.
      whole_word: mask the tokens of a word together; dynamic masking only.
      masked_fraction: fraction of the tokens that are masked; dynamic masking only.
      shuffle_window, **options: see `RecordDataset`.

    Raises:
      ValueError: `masked_fraction` is out of range, or masks are asked for that the records do not have.
    """

    def __init__(
        self,
        split: Split,
        manifest: Manifest,
        *,
        whole_word: bool = False,
        masked_fraction: float = masking.MASKED_FRACTION,
        shuffle_window: int = 65536,
        **options: Any,
    ) -> None:
        if not 0.0 < masked_fraction < 1.0:
            raise InputError(f"masked_fraction={masked_fraction}: expected a fraction, above 0.0 and below 1.0.")
        if manifest.masked and (whole_word or masked_fraction != masking.MASKED_FRACTION):
            raise InputError(
                "whole_word and masked_fraction are of sets without masks; this one has them already. Prepare the text."
            )
        super().__init__(split, shuffle_window=shuffle_window, **options)
        self._manifest, self._fraction = manifest, masked_fraction
        self._continues = np.array(manifest.vocabulary.continues) if whole_word else None

    @property
    def contents(self) -> str:
        kind = "pairs of segments" if self._manifest.next_sentence else "runs of text"
        masks = "written" if self._manifest.masked else "dynamic"
        return (
            f"{len(self):,} {kind} of {self._manifest.max_seq_length} tokens in {len(self._split.files):,} files, "
            f"{len(self._manifest.vocabulary):,} tokens in the vocabulary, {masks} masks"
        )

    @property
    def tokens_per_example(self) -> int:
        """Tokens in a sequence, with padding."""
        return self._manifest.max_seq_length

    def examples(self, records: tf.Tensor, numbers: tf.Tensor, epochs: tf.Tensor, seed: int | None) -> Any:
        if self._manifest.masked:
            inputs, labels, weights, next_sentence = self._with_masks(records)
        else:
            if seed is None:
                seed, epochs = _EVALUATION_SEED, tf.fill(tf.shape(numbers), tf.constant(_EVALUATION_EPOCH, tf.int64))
            inputs, labels, weights, next_sentence = self._without_masks(records, numbers, epochs, seed)
        features = dict(zip(("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions"), inputs))
        if not self._manifest.next_sentence:
            return features, {"masked_lm": labels}, {"masked_lm": weights}
        there = tf.cast(tf.strings.length(records) > 0, tf.float32)
        labels = {"masked_lm": labels, "next_sentence": tf.cast(next_sentence, tf.int32)}
        return features, labels, {"masked_lm": weights, "next_sentence": there}

    def _without_masks(self, records: tf.Tensor, numbers: tf.Tensor, epochs: tf.Tensor, seed: int) -> tuple[Any, ...]:
        """(inputs, masked tokens, their weights, next-sentence labels) of records that are masked here."""
        skip_bad.check_is_local(self.source)
        manifest, width = self._manifest, self._manifest.id_type.itemsize
        length, predictions = manifest.max_seq_length, manifest.max_predictions_per_seq
        whole = tf.io.FixedLenFeature([], tf.int64, 0)
        spec = {"ids": tf.io.FixedLenFeature([], tf.string, ""), "first_length": whole, "next_sentence_labels": whole}
        parsed = tf.io.parse_example(records, spec)
        kind = {2: tf.uint16, 4: tf.int32}[width]
        ids = tf.cast(tf.io.decode_raw(parsed["ids"], kind, little_endian=True, fixed_length=width * length), tf.int32)
        sizes, first = tf.strings.length(parsed["ids"]) // width, tf.cast(parsed["first_length"], tf.int32)
        # Exactly the non-empty records have ids.
        fits = (sizes <= length) & ((sizes > 0) == (tf.strings.length(records) > 0))
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fits), ["not of so many ids as the set"])]):
            ids = _below(len(manifest.vocabulary), ids, "an id")
        drawn = tf.numpy_function(
            functools.partial(self._masked, seed),
            [ids, first, sizes, epochs, numbers],
            [tf.int32, tf.int32, tf.int32, tf.float32],
            stateful=False,
        )
        masked, positions, labels, weights = (
            tf.ensure_shape(found, [records.shape[0], size])
            for found, size in zip(drawn, (length, predictions, predictions, predictions))
        )
        places = tf.range(length)
        there = places < sizes[:, None]
        types = there & (places >= first[:, None])
        inputs = (masked, tf.cast(there, tf.int32), tf.cast(types, tf.int32), positions)
        return inputs, labels, weights, parsed["next_sentence_labels"]

    def _masked(
        self, seed: int, ids: np.ndarray, first: np.ndarray, sizes: np.ndarray, epochs: np.ndarray, numbers: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """`masking.mask` of a batch; a record's masks are a function of (seed, epoch, number)."""
        inputs, positions, labels, weights = masking.mask(
            ids,
            *masking.words(ids, first, sizes, self._continues),
            masking.keys_of(seed, epochs, numbers),
            max_predictions=self._manifest.max_predictions_per_seq,
            mask_id=self._manifest.vocabulary.mask,
            vocabulary_size=len(self._manifest.vocabulary),
            fraction=self._fraction,
        )
        return inputs.astype(np.int32), positions.astype(np.int32), labels.astype(np.int32), weights

    def _with_masks(self, records: tf.Tensor) -> tuple[Any, ...]:
        """As `_without_masks`, of records with masks, in the layout of google-research/bert."""
        manifest = self._manifest
        length, words = manifest.max_seq_length, len(manifest.vocabulary)
        # Values from these on would make a training step fail or learn nonsense.
        limits = dict(zip((*OF_TOKENS, *OF_PREDICTIONS[:2]), (words, 2, 2, length, words)))
        limits |= {NEXT_SENTENCE: 2} if manifest.next_sentence else {}
        sizes = {**dict.fromkeys(OF_PREDICTIONS, manifest.max_predictions_per_seq), NEXT_SENTENCE: 1}
        spec = {}
        for name in (*limits, OF_PREDICTIONS[2]):
            shape, dtype = [sizes.get(name, length)], tf.int64 if name in limits else tf.float32
            spec[name] = tf.io.FixedLenFeature(shape, dtype, tf.zeros(shape, dtype))
        parsed = tf.io.parse_example(records, spec)
        weights = tf.debugging.check_numerics(parsed[OF_PREDICTIONS[2]], "a weight is not finite")
        found = [tf.cast(_below(limit, parsed[name], name), tf.int32) for name, limit in limits.items()]
        begins = tf.reduce_all((found[1][:, 0] > 0) == (tf.strings.length(records) > 0))
        with tf.control_dependencies([tf.debugging.Assert(begins, ["a record without a token"])]):
            weights = tf.identity(weights)
        return found[:4], found[4], weights, found[5][:, 0] if manifest.next_sentence else None


def _below(limit: int, values: tf.Tensor, what: str) -> tf.Tensor:
    """The values, checked to be in [0, limit): an embedding lookup would fail without saying why."""
    message = f"{what} is not from 0 to {limit - 1}"
    fits = tf.debugging.Assert(tf.reduce_all((values >= 0) & (values < limit)), [message])
    with tf.control_dependencies([fits]):
        return tf.identity(values)
