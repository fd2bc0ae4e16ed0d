"""tf-models-official's BERT encoder with packed sequences and recomputation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfbigbatch.models import official
from tfbigbatch.models import recompute as recomputation

BertEncoderV2: Any = official.module("official.nlp.modeling.networks").BertEncoderV2


class _Encoder(BertEncoderV2):
    """The same layers and variables, with recomputation of each transformer layer.

    Args:
      recompute: whether the backward pass computes a layer's activations again; see `recompute.Block`.
      **options: of BertEncoderV2.
    """

    def __init__(self, *, recompute: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._recompute = recompute

    def _encoded(self, values: tf.Tensor, mask: tf.Tensor, training: bool | None) -> dict[str, tf.Tensor]:
        """The outputs of the transformer layers and the pooler, from embeddings [n, T, units] and a mask [n, T, T]."""
        for layer in self._transformer_layers:
            values = self._run(layer, values, mask, training)
        return {"sequence_output": values, "pooled_output": self._pooler_layer(values[:, 0])}

    def _run(self, layer: Any, values: tf.Tensor, mask: tf.Tensor, training: bool | None) -> tf.Tensor:
        if not self._recompute:
            return layer([values, mask])

        def of_tensors(values: tf.Tensor, mask: tf.Tensor, training: bool | None) -> tf.Tensor:
            # The backward pass is outside of the call that would give the layer its mode.
            return layer([values, mask], training=training)

        return recomputation.Block(of_tensors, [layer])(values, mask, training=training)


class RecomputedBertEncoder(_Encoder):
    """The encoder of sequences of one text."""

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> dict[str, tf.Tensor]:
        words, types = inputs["input_word_ids"], inputs["input_type_ids"]
        embeddings = self._get_embeddings(words, types, self._embedding_layer(words), None, None)
        values = self._embedding_dropout(self._embedding_norm_layer(embeddings))
        return self._encoded(values, self._attention_mask_layer(values, inputs["input_mask"]), training)


class PackedBertEncoder(_Encoder):
    """The encoder of packed sequences: attention within each text, and positions that start at 0 in each.

    The inputs have two more entries, int32 [n, T]: position_ids, and document_ids, which number the texts from 1 and
    are 0 for padding.
    """

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> dict[str, tf.Tensor]:
        words = self._embedding_layer(inputs["input_word_ids"])
        # Called only to create its variable: its own positions start with the sequence.
        self._position_embedding_layer(words)
        table = tf.cast(self._position_embedding_layer._position_embeddings, words.dtype)
        embeddings = words + tf.gather(table, inputs["position_ids"])
        embeddings += self._type_embedding_layer(inputs["input_type_ids"])
        values = self._embedding_dropout(self._embedding_norm_layer(embeddings))
        document = inputs["document_ids"]
        together = (document[:, :, tf.newaxis] == document[:, tf.newaxis]) & (document > 0)[:, tf.newaxis]
        return self._encoded(values, tf.cast(together, values.dtype), training)
