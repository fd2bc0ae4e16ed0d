"""BERT pretraining data in TFRecord files as a Dataset: read, shuffle, batch, then parse and mask whole batches.

A damaged record becomes an example with weight 0 in the same position: no other example, and no later batch, changes.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from tfbigbatch.data.bert import features
from tfbigbatch.data.bert.manifest import Manifest
from tfbigbatch.data.bert.static_masking import MASKED_SHARE
from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.records import reader, skip_bad
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.data.records.order import HostSlice, RecordOrder
from tfbigbatch.data.records.reader import RecordReader
from tfbigbatch.data.records.skip_bad import BadRecords
from tfbigbatch.errors import InputError


class BertRecords(Dataset):
    """One split of prepared pretraining data.

    Batches are dictionaries (features, labels, weights), for n = batch_size / replicas sequences of T tokens with at
    most P masked ones:

    - features, int32: 'input_word_ids', 'input_mask' (1 for tokens, 0 for padding) and 'input_type_ids' (1 in segment
      B), [n, T]; 'masked_lm_positions' [n, P]; of packed data also 'position_ids' [n, T], from 0 in each text, and
      'document_ids' [n, T], from 1, 0 for padding: attention must stay within equal ones.
    - labels, int32: 'masked_lm' [n, P], the tokens at these positions; for pairs 'next_sentence' [n], 1 if segment B is
      of another document.
    - weights, float32: 'masked_lm' [n, P], 0 for unused positions; 'next_sentence' [n], 0 for a bad record or padding.

    Evaluation always uses the same masks.

    Args:
      split: of the manifest.
      manifest: of the prepared folder.
      whole_word: mask the tokens of a word together; dynamic masking only.
      masked_share: fraction of the tokens that are masked; dynamic masking only.
      shuffle_window: records that are shuffled together, and held in memory.
      cache_records: keep the records in memory, and read each once.
      max_bad_share: the largest fraction of the split's records that may be bad.
      threads: of the private pool that parses and masks; None for as many as the machine has cores.

    Attributes:
      bad: skip_bad.BadRecords of the split.

    Raises:
      ValueError: `masked_share` is out of range, or masks are asked for that the records do not have.
    """

    def __init__(
        self,
        split: Split,
        manifest: Manifest,
        *,
        whole_word: bool = False,
        masked_share: float = MASKED_SHARE,
        shuffle_window: int = 65536,
        cache_records: bool = False,
        max_bad_share: float = 0.0001,
        threads: int | None = None,
    ) -> None:
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

    def __len__(self) -> int:
        return self._split.examples

    @property
    def contents(self) -> str:
        kind = "pairs of segments" if self._manifest.next_sentence else "runs of text"
        return (
            f"{len(self):,} {kind} of {self._manifest.max_seq_length} tokens in {len(self._split.files):,} files, "
            f"{len(self._manifest.vocabulary):,} tokens in the vocabulary, {self._manifest.masking} masks"
        )

    @property
    def tokens_per_example(self) -> int:
        """Tokens in a sequence, with padding."""
        return self._manifest.max_seq_length

    def examples_in_epoch(self, batch_size: int) -> int:
        return len(self)

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        own = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        order = RecordOrder(self._reader.chunks, own, seed, self._shuffle_window)
        return self._batches(
            reader.shuffled_records(self._reader, order, first_step),
            seed,
            size=batch_size // context.num_replicas_in_sync,
            count=(last_step - first_step) * (context.num_replicas_in_sync // context.num_input_pipelines),
        )

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        own = HostSlice(batch_size, context.num_input_pipelines, context.input_pipeline_id)
        steps = self.evaluation_steps(batch_size)
        epoch = tf.constant(features.EVALUATION_EPOCH, tf.int64)
        return self._batches(
            reader.records_in_order(self._reader, own, steps).map(lambda records, numbers: (records, numbers, epoch)),
            features.EVALUATION_SEED,
            size=batch_size // context.num_replicas_in_sync,
            count=steps * (context.num_replicas_in_sync // context.num_input_pipelines),
        )

    def evaluation_steps(self, batch_size: int) -> int:
        return -(-len(self) // batch_size)

    def _batches(self, records: tf.data.Dataset, seed: int, *, size: int, count: int) -> tf.data.Dataset:
        """`count` batches of `size` from runs of (records, numbers, epoch), computed in parallel, in order."""
        options = tf.data.Options()
        options.threading.private_threadpool_size = self._threads
        # Parallelism is over batches, not within one.
        options.threading.max_intra_op_parallelism = 1
        options.deterministic = True
        report = self.bad.reporter()

        def batch(records: tf.Tensor, numbers: tf.Tensor, epochs: tf.Tensor) -> Any:
            records, numbers, epochs = (tf.ensure_shape(one, [size]) for one in (records, numbers, epochs))
            return skip_bad.map_records(
                lambda records, epochs, numbers: self._features.batch(records, seed, epochs, numbers),
                records,
                numbers,
                (epochs, numbers),
                report,
            )

        return (
            records.map(lambda records, numbers, epoch: (records, numbers, tf.fill(tf.shape(numbers), epoch)))
            .rebatch(size, drop_remainder=True)
            .take(count)
            .map(batch, num_parallel_calls=self._threads, deterministic=True)
            .prefetch(2)
            .with_options(options)
        )
