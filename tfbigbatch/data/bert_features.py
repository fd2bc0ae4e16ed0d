"""The batches of BERT's pretraining, from serialized records: parsed all at once, and masked where they are not."""

import tensorflow as tf

from tfbigbatch.data import bert_manifest, masking

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
        manifest, vocabulary = self._manifest, self._manifest.vocabulary
        length = manifest.max_seq_length
        none = tf.constant(0, tf.int64)
        spec = {
            "ids": tf.io.FixedLenFeature([], tf.string, ""),
            "first_length": tf.io.FixedLenFeature([], tf.int64, none),
        }
        if manifest.next_sentence:
            spec["next_sentence_labels"] = tf.io.FixedLenFeature([], tf.int64, none)
        parsed = tf.io.parse_example(records, spec)
        width = manifest.bytes_of_id
        ids = tf.io.decode_raw(
            parsed["ids"], {2: tf.uint16, 4: tf.int32}[width], little_endian=True, fixed_length=width * length
        )
        ids = tf.ensure_shape(tf.cast(ids, tf.int32), [None, length])
        sizes = tf.strings.length(parsed["ids"]) // width
        first = tf.cast(parsed["first_length"], tf.int32)
        ids = _checked(ids, len(vocabulary))
        inputs, positions, labels, weights = masking.mask(
            ids,
            *masking.words(ids, first, sizes, self._continues),
            masking.keys(seed, epochs, numbers),
            max_predictions=manifest.max_predictions_per_seq,
            mask_id=vocabulary.mask,
            vocabulary_size=len(vocabulary),
            share=self._share,
        )
        places = tf.range(length)
        there = places < sizes[:, None]
        features = {
            "input_word_ids": inputs,
            "input_mask": tf.cast(there, tf.int32),
            "input_type_ids": tf.cast(there & (places >= first[:, None]), tf.int32),
            "masked_lm_positions": positions,
        }
        return _with_next_sentence(features, labels, weights, parsed.get("next_sentence_labels"), records)


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
        whole = {name: tf.cast(value, tf.int32) for name, value in found.items() if name != "weights"}
        features = {
            "input_word_ids": _checked(whole["ids"], len(manifest.vocabulary)),
            "input_mask": whole["mask"],
            "input_type_ids": whole["types"],
            "masked_lm_positions": whole["positions"],
        }
        next_sentence = whole["next_sentence"][:, 0] if manifest.next_sentence else None
        return _with_next_sentence(features, whole["labels"], found["weights"], next_sentence, records)


def of(manifest, *, whole_word, masked_share):
    """The features of a set's records: DynamicFeatures or StaticFeatures."""
    if manifest.masking == bert_manifest.DYNAMIC:
        return DynamicFeatures(manifest, whole_word=whole_word, masked_share=masked_share)
    return StaticFeatures(manifest)


def _with_next_sentence(features, labels, weights, next_sentence, records):
    labels, weights = {"masked_lm": labels}, {"masked_lm": weights}
    if next_sentence is not None:
        labels["next_sentence"] = tf.cast(next_sentence, tf.int32)
        weights["next_sentence"] = tf.cast(tf.strings.length(records) > 0, tf.float32)
    return features, labels, weights


def _checked(ids, size):
    """The ids, where all are of the vocabulary: else an embedding's lookup would fail with less to say."""
    with tf.control_dependencies([tf.debugging.assert_less(ids, size, "an id is not of the vocabulary")]):
        return tf.identity(ids)
