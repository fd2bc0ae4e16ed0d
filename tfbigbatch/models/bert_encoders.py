"""tf-models-official's BERT encoder with recomputation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfbigbatch.models import official
from tfbigbatch.models import recompute as recomputation

BertEncoderV2: Any = official.module("official.nlp.modeling.networks").BertEncoderV2


class RecomputedBertEncoder(BertEncoderV2):
    """The same layers and variables; the backward pass computes the activations of each transformer layer again."""

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> dict[str, tf.Tensor]:
        words, types = inputs["input_word_ids"], inputs["input_type_ids"]
        embeddings = self._get_embeddings(words, types, self._embedding_layer(words), None, None)
        values = self._embedding_dropout(self._embedding_norm_layer(embeddings))
        mask = self._attention_mask_layer(values, inputs["input_mask"])
        for layer in self._transformer_layers:

            def of_tensors(values: tf.Tensor, mask: tf.Tensor, training: bool | None, layer: Any = layer) -> tf.Tensor:
                # The backward pass is outside of the call that would give the layer its mode.
                return layer([values, mask], training=training)

            values = recomputation.Block(of_tensors, [layer])(values, mask, training=training)
        return {"sequence_output": values, "pooled_output": self._pooler_layer(values[:, 0])}
