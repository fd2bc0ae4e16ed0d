"""The batches of BERT's pretraining, from serialized records: parsed all at once, and masked where they are not."""

import tensorflow as tf

from tfbigbatch.data.bert import masking

# The place of a mask's epoch where there is none: evaluation's masks are the same each time.
EVALUATION_SEED, EVALUATION_EPOCH = 0, -1


class DynamicFeatures:
    """Records without masks, which are made here.

    Args:
      manifest: bert_manifest.Manifest, of dynamic masking.
      whole_word: whether the tokens of a word are masked together.
      masked_share: of the tokens that may be masked.
    """

    def __init__(self, manifest, *, whole_word, masked_share):
        self._manifest, self._share = manifest, masked_share
        self._continues = tf.constant(manifest.vocabulary.continues) if whole_word else None

    def batch(self, records, seed, epochs, numbers):
        """A batch of records.

        Args:
          records: string [n]; an empty one stands for none, and weighs nothing.
          seed: int, the run's.
          epochs, numbers: int64 [n], of each record: its masks are a function of (seed, epoch, number).

        Returns:
          (features, labels, weights), see BertRecords.training_batches.
        """
        parsed, ids, sizes = self._parsed(records, {"first_length": 0, "next_sentence_labels": 0})
        places = tf.range(self._manifest.max_seq_length)
        first, there = tf.cast(parsed["first_length"], tf.int32), places < sizes[:, None]
        may, begins = masking.words(ids, first, sizes, self._continues)
        features, labels, weights = self._masked(ids, may, begins, there, masking.keys(seed, epochs, numbers))
        features["input_type_ids"] = tf.cast(there & (places >= first[:, None]), tf.int32)
        next_sentence = parsed["next_sentence_labels"] if self._manifest.next_sentence else None
        return _with_next_sentence(features, labels, weights, next_sentence, records)

    def _parsed(self, records, others):
        """(other features by their names, ids, sizes): `others` are defaults; int32 [n, T] and int32 [n]."""
        width, length = self._manifest.bytes_of_id, self._manifest.max_seq_length
        spec = {"ids": tf.io.FixedLenFeature([], tf.string, "")}
        for name, default in others.items():
            spec[name] = tf.io.FixedLenFeature([], tf.string if default == "" else tf.int64, default)
        parsed = tf.io.parse_example(records, spec)
        ids = tf.io.decode_raw(
            parsed["ids"], {2: tf.uint16, 4: tf.int32}[width], little_endian=True, fixed_length=width * length
        )
        ids, sizes = tf.ensure_shape(tf.cast(ids, tf.int32), [None, length]), tf.strings.length(parsed["ids"]) // width
        # No record is empty, and none has no ids.
        fits = (sizes <= length) & ((sizes > 0) == (tf.strings.length(records) > 0))
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fits), ["not of so many ids as the set"])]):
            return parsed, _below(len(self._manifest.vocabulary), ids, "an id"), tf.identity(sizes)

    def _masked(self, ids, may, begins, there, keys):
        """(features, labels, weights) but for segments; `there` is bool [n, T], what is no padding."""
        manifest = self._manifest
        inputs, positions, labels, weights = masking.mask(
            ids,
            may,
            begins,
            keys,
            max_predictions=manifest.max_predictions_per_seq,
            mask_id=manifest.vocabulary.mask,
            vocabulary_size=len(manifest.vocabulary),
            share=self._share,
        )
        there = tf.cast(there, tf.int32)
        return {"input_word_ids": inputs, "input_mask": there, "masked_lm_positions": positions}, labels, weights


class PackedFeatures(DynamicFeatures):
    """The same of records that hold several texts."""

    def batch(self, records, seed, epochs, numbers):
        """As DynamicFeatures.batch, with 'position_ids' and 'document_ids'; all texts share the masks' number."""
        parsed, ids, sizes = self._parsed(records, {"lengths": ""})
        length = self._manifest.max_seq_length
        # [CLS], a token and [SEP] at least.
        most, places = length // 3, tf.range(length)
        sizes_of_texts = tf.io.decode_raw(parsed["lengths"], tf.uint16, little_endian=True, fixed_length=2 * most)
        sizes_of_texts = tf.ensure_shape(tf.cast(sizes_of_texts, tf.int32), [None, most])
        ends = tf.cumsum(sizes_of_texts, axis=1)
        # How many texts end before a place; behind the last one all do, and the number is not used.
        text = tf.reduce_sum(tf.cast(places[:, None] >= ends[:, None, :], tf.int32), axis=2)
        there, last = places < sizes[:, None], tf.minimum(text, most - 1)
        begin = tf.gather(ends - sizes_of_texts, last, batch_dims=1)
        end = tf.gather(ends, last, batch_dims=1)
        may = there & (places > begin) & (places < end - 1)
        begins = masking.beginnings(ids, may, self._continues)
        features, labels, weights = self._masked(ids, may, begins, there, masking.keys(seed, epochs, numbers))
        features["input_type_ids"] = tf.zeros_like(ids)
        features["position_ids"] = tf.where(there, places - begin, 0)
        features["document_ids"] = tf.where(there, text + 1, 0)
        return _with_next_sentence(features, labels, weights, None, records)


class StaticFeatures:
    """Records that have their masks, in the layout of google-research/bert.

    Args:
      manifest: bert_manifest.Manifest, of static masking.
    """

    def __init__(self, manifest):
        self._manifest = manifest

    def batch(self, records, seed, epochs, numbers):
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
        # What a training step would stop at, or learn nonsense from.
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


def of(manifest, *, whole_word, masked_share):
    """The features of a set's records: DynamicFeatures, PackedFeatures or StaticFeatures."""
    if not manifest.dynamic:
        return StaticFeatures(manifest)
    kind = PackedFeatures if manifest.packed else DynamicFeatures
    return kind(manifest, whole_word=whole_word, masked_share=masked_share)


def _with_next_sentence(features, labels, weights, next_sentence, records):
    labels, weights = {"masked_lm": labels}, {"masked_lm": weights}
    if next_sentence is not None:
        labels["next_sentence"] = tf.cast(next_sentence, tf.int32)
        weights["next_sentence"] = tf.cast(tf.strings.length(records) > 0, tf.float32)
    return features, labels, weights


def _below(limit, values, what):
    """The values, where all are in [0, limit): else an embedding's lookup would fail, with less to say."""
    message = f"{what} is not from 0 to {limit - 1}"
    fits = tf.debugging.Assert(tf.reduce_all((values >= 0) & (values < limit)), [message])
    with tf.control_dependencies([fits]):
        return tf.identity(values)
