"""BERT's pretraining data in TFRecord files: per-replica batches from (seed, step), and padded evaluation.

Read, shuffle, batch, then parse and mask a batch at once. A record that is damaged is an example of no weight,
in its place: the batches that follow are the same, and nothing else is lost.
"""

import os

import tensorflow as tf

from tfbigbatch.data.bert import features
from tfbigbatch.data.bert.static_masking import MASKED_SHARE
from tfbigbatch.data.records import reader, skip_bad
from tfbigbatch.data.records.order import HostSlice, RecordOrder
from tfbigbatch.data.records.reader import RecordReader
from tfbigbatch.data.records.skip_bad import BadRecords
from tfbigbatch.errors import InputError


class BertRecords:
    """One split of a prepared set of sequences.

    Args:
      split: `record_manifest.Split`.
      manifest: the `bert_manifest.Manifest` that it is of.
      whole_word: whether the tokens of a word are masked together; of sets without masks alone.
      masked_share: of the tokens that may be masked; of sets without masks alone.
      shuffle_window: records that are shuffled together, and held in memory.
      cache_records: keep the records in memory, and read each once.
      max_bad_share: the share of the split's records that may be bad.
      threads: of the private pool that parses and masks; None for as many as the machine has cores.

    Raises:
      ValueError: `masked_share` is out of its range, or masks are asked for that the records do not have.
    """

    def __init__(
        self,
        split,
        manifest,
        *,
        whole_word=False,
        masked_share=MASKED_SHARE,
        shuffle_window=65536,
        cache_records=False,
        max_bad_share=0.0001,
        threads=None,
    ):
        if not 0.0 < masked_share < 1.0:
            raise InputError(f"masked_share={masked_share}: expected a share, above 0.0 and below 1.0.")
        if not manifest.dynamic and (whole_word or masked_share != MASKED_SHARE):
            raise InputError(
                f"whole_word and masked_share are of sets without masks; this one has them already "
                f"({manifest.masking}). Prepare the text with --masking=dynamic."
            )
        self._split, self._manifest = split, manifest
        self._features = features.of(manifest, whole_word=whole_word, masked_share=masked_share)
        self._shuffle_window = shuffle_window
        self._threads = threads or os.cpu_count()
        self._reader = RecordReader(split.files, split.counts, split.offsets, cache_records)
        self.bad = BadRecords(split, max_share=max_bad_share)
        self.source = f"{os.path.dirname(split.files[0])}, {split.name}"

    def __len__(self):
        return self._split.examples

    @property
    def contents(self):
        """What there is, in words, for the run's banner."""
        kind = "pairs of segments" if self._manifest.next_sentence else "runs of text"
        return (
            f"{len(self):,} {kind} of {self._manifest.max_seq_length} tokens in {len(self._split.files):,} files, "
            f"{len(self._manifest.vocabulary):,} tokens in the vocabulary, {self._manifest.masking} masks"
        )

    @property
    def tokens_per_example(self):
        """Tokens of a sequence, padding included."""
        return self._manifest.max_seq_length

    def examples_in_epoch(self, batch_size):
        """The examples in an epoch, whatever the batch: an epoch need not be whole batches."""
        del batch_size
        return len(self)

    def training_batches(self, context, *, batch_size, seed, first_step, last_step):
        """Batches for this worker's replicas, in the order of `RecordOrder`.

        Args:
          context: tf.distribute.InputContext of this worker.
          batch_size: sequences in one update over all replicas; a multiple of their number.
          seed: of the order and of the masks.
          first_step, last_step: the updates [first_step, last_step) that the data set covers.

        Returns:
          tf.data.Dataset of (features, labels, weights), dictionaries, for n = batch_size / replicas sequences of
          T tokens with at most P of them masked; the replicas of this worker take turns. Features, int32:
          'input_word_ids', 'input_mask' (1 for a token, 0 for padding) and 'input_type_ids' (1 in segment B), [n, T]
          each, and 'masked_lm_positions' [n, P]; of a packed set also 'position_ids' [n, T], from 0 in each text,
          and 'document_ids' [n, T], from 1 on and 0 for padding: attention is to stay within equal ones. Labels,
          int32: 'masked_lm' [n, P], the tokens at those positions; and, where the set has pairs, 'next_sentence'
          [n], 1 where segment B is of another document. Weights, float32: 'masked_lm' [n, P], 0 for the places
          left over; 'next_sentence' [n], 0 for a record that is damaged.
        """
        share = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        order = RecordOrder(self._reader.chunks, share, seed, self._shuffle_window)
        return self._batches(
            reader.shuffled_records(self._reader, order, first_step),
            seed,
            size=batch_size // context.num_replicas_in_sync,
            count=(last_step - first_step) * (context.num_replicas_in_sync // context.num_input_pipelines),
        )

    def evaluation_batches(self, context, *, batch_size):
        """Every sequence once, in order, padded to whole batches; the masks are the same each time.

        Returns:
          tf.data.Dataset of (features, labels, weights) as `training_batches`: all weights of padding are 0.
          It covers `evaluation_steps(batch_size)` updates.
        """
        share = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        steps = self.evaluation_steps(batch_size)
        epoch = tf.constant(features.EVALUATION_EPOCH, tf.int64)
        return self._batches(
            reader.records_in_order(self._reader, share, steps).map(lambda records, numbers: (records, numbers, epoch)),
            features.EVALUATION_SEED,
            size=batch_size // context.num_replicas_in_sync,
            count=steps * (context.num_replicas_in_sync // context.num_input_pipelines),
        )

    def evaluation_steps(self, batch_size):
        """The number of batches that hold every sequence once."""
        return -(-len(self) // batch_size)

    def _batches(self, records, seed, *, size, count):
        """`count` batches of `size` from runs of (records, numbers, epoch), made in parallel, in order."""
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._threads
        # The batches are what runs side by side, not the parts of one.
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = True

        def batch(records, numbers, epochs):
            records, numbers, epochs = (tf.ensure_shape(one, [size]) for one in (records, numbers, epochs))
            bad = tf.boolean_mask(numbers, (tf.strings.length(records) == 0) & (numbers != reader.PADDING))
            tf.cond(tf.size(bad) > 0, lambda: self._report(bad), lambda: False)
            return skip_bad.map_batch_skipping_errors(
                lambda records, epochs, numbers: self._features.batch(records, seed, epochs, numbers),
                (records, epochs, numbers),
                lambda fine: self._report(tf.boolean_mask(numbers, ~fine)),
            )

        return (
            records.map(lambda records, numbers, epoch: (records, numbers, tf.fill(tf.shape(numbers), epoch)))
            .rebatch(size, drop_remainder=True)
            .take(count)
            .map(batch, num_parallel_calls=self._threads, deterministic=True)
            .prefetch(2)
            .with_options(options)
        )

    def _report(self, numbers):
        tf.numpy_function(self.bad.add, [numbers], [])
        return True
