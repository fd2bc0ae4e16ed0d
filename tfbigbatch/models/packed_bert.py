"""tf-models-official's BERT encoder for packed sequences: several texts in one, which do not attend to each other."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf
from official.nlp.modeling.networks import BertEncoderV2


class PackedBertEncoder(BertEncoderV2):
    """The same layers and variables, with attention within each text, and positions that start at 0 in each.

    The inputs have two more entries, int32 [n, T]: position_ids, and document_ids, which number the texts from 1 and
    are 0 for padding.
    """

    def call(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        words = self._embedding_layer(inputs["input_word_ids"])
        # Called only to create its variable: its own positions start with the sequence.
        self._position_embedding_layer(words)
        table = tf.cast(self._position_embedding_layer._position_embeddings, words.dtype)
        embeddings = words + tf.gather(table, inputs["position_ids"])
        embeddings += self._type_embedding_layer(inputs["input_type_ids"])
        values = self._embedding_dropout(self._embedding_norm_layer(embeddings))
        document = inputs["document_ids"]
        together = (document[:, :, tf.newaxis] == document[:, tf.newaxis]) & (document > 0)[:, tf.newaxis]
        mask = tf.cast(together, values.dtype)
        for layer in self._transformer_layers:
            values = layer([values, mask])
        return {"sequence_output": values, "pooled_output": self._pooler_layer(values[:, 0])}
