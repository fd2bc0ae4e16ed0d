"""Features of BERT's pretraining, parsed from a batch of serialized records, and masked if they are not."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.data.bert import masking
from tfbigbatch.data.bert.manifest import Manifest

# Seed and epoch of evaluation's masks, which never change.
EVALUATION_SEED, EVALUATION_EPOCH = 0, -1


class DynamicFeatures:
    """Features of records without masks: dynamic masking.

    Args:
      manifest: of the prepared folder.
      whole_word: mask the tokens of a word together.
      fraction: of the maskable tokens that are masked.
    """

    def __init__(self, manifest: Manifest, *, whole_word: bool, fraction: float) -> None:
        self._manifest, self._fraction = manifest, fraction
        self._continues = tf.constant(manifest.vocabulary.continues) if whole_word else None

    def batch(self, records: tf.Tensor, seed: int, epochs: tf.Tensor, numbers: tf.Tensor) -> Any:
        """The features, labels and weights of a batch, as BertRecords documents them.

        Args:
          records: string [n]; an empty one is no record, with weights 0.
          seed: of the run.
          epochs, numbers: int64 [n]; a record's masks are a function of (seed, epoch, number).
        """
        parsed, ids, sizes = self._parsed(records, {"first_length": 0, "next_sentence_labels": 0})
        positions = tf.range(self._manifest.max_seq_length)
        first, there = tf.cast(parsed["first_length"], tf.int32), positions < sizes[:, None]
        may, begins = masking.words(ids, first, sizes, self._continues)
        features, labels, weights = self._masked(ids, may, begins, there, masking.keys(seed, epochs, numbers))
        features["input_type_ids"] = tf.cast(there & (positions >= first[:, None]), tf.int32)
        next_sentence = parsed["next_sentence_labels"] if self._manifest.next_sentence else None
        return _with_next_sentence(features, labels, weights, next_sentence, records)

    def _parsed(self, records: tf.Tensor, others: dict[str, Any]) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        """(features by name, ids int32 [n, T], sizes int32 [n]); `others` are further features, with defaults."""
        width, length = self._manifest.id_type.itemsize, self._manifest.max_seq_length
        spec: dict[str, Any] = {"ids": tf.io.FixedLenFeature([], tf.string, "")}
        for name, default in others.items():
            spec[name] = tf.io.FixedLenFeature([], tf.string if default == "" else tf.int64, default)
        parsed = tf.io.parse_example(records, spec)
        ids = tf.io.decode_raw(
            parsed["ids"], {2: tf.uint16, 4: tf.int32}[width], little_endian=True, fixed_length=width * length
        )
        ids, sizes = tf.ensure_shape(tf.cast(ids, tf.int32), [None, length]), tf.strings.length(parsed["ids"]) // width
        # Exactly the non-empty records have ids.
        fits = (sizes <= length) & ((sizes > 0) == (tf.strings.length(records) > 0))
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fits), ["not of so many ids as the set"])]):
            return parsed, _below(len(self._manifest.vocabulary), ids, "an id"), tf.identity(sizes)

    def _masked(self, ids: tf.Tensor, may: tf.Tensor, begins: tf.Tensor, there: tf.Tensor, keys: tf.Tensor) -> Any:
        """(features, labels, weights) without segments; `there` is bool [n, T], False for padding."""
        manifest = self._manifest
        inputs, positions, labels, weights = masking.mask(
            ids,
            may,
            begins,
            keys,
            max_predictions=manifest.max_predictions_per_seq,
            mask_id=manifest.vocabulary.mask,
            vocabulary_size=len(manifest.vocabulary),
            fraction=self._fraction,
        )
        there = tf.cast(there, tf.int32)
        return {"input_word_ids": inputs, "input_mask": there, "masked_lm_positions": positions}, labels, weights


class PackedFeatures(DynamicFeatures):
    """Features of packed records without masks, with 'position_ids' and 'document_ids'."""

    def batch(self, records: tf.Tensor, seed: int, epochs: tf.Tensor, numbers: tf.Tensor) -> Any:
        """As DynamicFeatures.batch; all texts of a record share its random numbers."""
        parsed, ids, sizes = self._parsed(records, {"lengths": ""})
        length = self._manifest.max_seq_length
        # [CLS], a token and [SEP] at least.
        most, positions = length // 3, tf.range(length)
        sizes_of_texts = tf.io.decode_raw(parsed["lengths"], tf.uint16, little_endian=True, fixed_length=2 * most)
        sizes_of_texts = tf.ensure_shape(tf.cast(sizes_of_texts, tf.int32), [None, most])
        ends = tf.cumsum(sizes_of_texts, axis=1)
        # Number of texts that end before a position; not used behind the last text.
        text = tf.reduce_sum(tf.cast(positions[:, None] >= ends[:, None, :], tf.int32), axis=2)
        there, last = positions < sizes[:, None], tf.minimum(text, most - 1)
        begin = tf.gather(ends - sizes_of_texts, last, batch_dims=1)
        end = tf.gather(ends, last, batch_dims=1)
        may = there & (positions > begin) & (positions < end - 1)
        begins = masking.beginnings(ids, may, self._continues)
        features, labels, weights = self._masked(ids, may, begins, there, masking.keys(seed, epochs, numbers))
        features["input_type_ids"] = tf.zeros_like(ids)
        features["position_ids"] = tf.where(there, positions - begin, 0)
        features["document_ids"] = tf.where(there, text + 1, 0)
        return _with_next_sentence(features, labels, weights, None, records)


class StaticFeatures:
    """Features of records with static masks, in the layout of google-research/bert.

    Args:
      manifest: of the prepared folder.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def batch(self, records: tf.Tensor, seed: int, epochs: tf.Tensor, numbers: tf.Tensor) -> Any:
        """As DynamicFeatures.batch; the masks are those of the records."""
        del seed, epochs, numbers
        manifest = self._manifest
        length, predictions = manifest.max_seq_length, manifest.max_predictions_per_seq
        shapes = dict.fromkeys(("ids", "mask", "types"), [length])
        shapes |= dict.fromkeys(("positions", "labels", "weights"), [predictions])
        shapes |= {"next_sentence": [1]} if manifest.next_sentence else {}
        spec = {}
        for name, shape in shapes.items():
            dtype = tf.float32 if name == "weights" else tf.int64
            spec[manifest.keys[name]] = tf.io.FixedLenFeature(shape, dtype, tf.zeros(shape, dtype))
        parsed = tf.io.parse_example(records, spec)
        found = {name: parsed[manifest.keys[name]] for name in shapes}
        # Values on which a training step would fail or learn nonsense.
        limits = {"ids": len(manifest.vocabulary), "mask": 2, "types": 2, "positions": length, "next_sentence": 2}
        limits["labels"] = limits["ids"]
        whole = {
            name: tf.cast(_below(limits[name], value, name), tf.int32)
            for name, value in found.items()
            if name != "weights"
        }
        features = {
            "input_word_ids": whole["ids"],
            "input_mask": whole["mask"],
            "input_type_ids": whole["types"],
            "masked_lm_positions": whole["positions"],
        }
        weights = tf.debugging.check_numerics(found["weights"], "a weight is not finite")
        whole_ones = tf.reduce_all((whole["mask"][:, 0] > 0) == (tf.strings.length(records) > 0))
        with tf.control_dependencies([tf.debugging.Assert(whole_ones, ["a record without a token"])]):
            weights = tf.identity(weights)
        next_sentence = whole["next_sentence"][:, 0] if manifest.next_sentence else None
        return _with_next_sentence(features, whole["labels"], weights, next_sentence, records)


def of(manifest: Manifest, *, whole_word: bool, fraction: float) -> DynamicFeatures | StaticFeatures:
    """The features of a prepared folder's records."""
    if not manifest.dynamic:
        return StaticFeatures(manifest)
    kind = PackedFeatures if manifest.packed else DynamicFeatures
    return kind(manifest, whole_word=whole_word, fraction=fraction)


def _with_next_sentence(
    features: dict[str, tf.Tensor],
    masked: tf.Tensor,
    masked_weights: tf.Tensor,
    next_sentence: tf.Tensor | None,
    records: tf.Tensor,
) -> Any:
    labels, weights = {"masked_lm": masked}, {"masked_lm": masked_weights}
    if next_sentence is not None:
        labels["next_sentence"] = tf.cast(next_sentence, tf.int32)
        weights["next_sentence"] = tf.cast(tf.strings.length(records) > 0, tf.float32)
    return features, labels, weights


def _below(limit: int, values: tf.Tensor, what: str) -> tf.Tensor:
    """The values, checked to be in [0, limit): an embedding lookup would fail without saying why."""
    message = f"{what} is not from 0 to {limit - 1}"
    fits = tf.debugging.Assert(tf.reduce_all((values >= 0) & (values < limit)), [message])
    with tf.control_dependencies([fits]):
        return tf.identity(values)
