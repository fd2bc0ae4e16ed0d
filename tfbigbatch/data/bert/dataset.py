"""BERT pretraining data in TFRecord files as a Dataset: read, shuffle, batch, then parse and mask whole batches.

A damaged record becomes an example with weight 0 in the same position: no other example, and no later batch, changes.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbigbatch.data.bert import features
from tfbigbatch.data.bert.manifest import Manifest
from tfbigbatch.data.bert.static_masking import MASKED_FRACTION
from tfbigbatch.data.records.dataset import RecordDataset
from tfbigbatch.data.records.manifest import Split
from tfbigbatch.errors import InputError


class BertRecords(RecordDataset):
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
      shuffle_window, **options: see `RecordDataset`.

    Raises:
      ValueError: `masked_share` is out of range, or masks are asked for that the records do not have.
    """

    def __init__(
        self,
        split: Split,
        manifest: Manifest,
        *,
        whole_word: bool = False,
        masked_share: float = MASKED_FRACTION,
        shuffle_window: int = 65536,
        **options: Any,
    ) -> None:
        if not 0.0 < masked_share < 1.0:
            raise InputError(f"masked_share={masked_share}: expected a fraction, above 0.0 and below 1.0.")
        if not manifest.dynamic and (whole_word or masked_share != MASKED_FRACTION):
            raise InputError(
                f"whole_word and masked_share are of sets without masks; this one has them already "
                f"({manifest.masking}). Prepare the text with --masking=dynamic."
            )
        super().__init__(split, shuffle_window=shuffle_window, **options)
        self._manifest = manifest
        self._features = features.of(manifest, whole_word=whole_word, fraction=masked_share)

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

    def examples(self, records: tf.Tensor, numbers: tf.Tensor, epochs: tf.Tensor, seed: int | None) -> Any:
        if seed is None:
            seed = features.EVALUATION_SEED
            epochs = tf.fill(tf.shape(numbers), tf.constant(features.EVALUATION_EPOCH, tf.int64))
        return self._features.batch(records, seed, epochs, numbers)
