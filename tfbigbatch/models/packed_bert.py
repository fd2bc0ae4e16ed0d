"""tf-models-official's BERT encoder on sequences of several texts, as if each were alone."""

import tensorflow as tf
from official.nlp.modeling.networks import BertEncoderV2


class PackedBertEncoder(BertEncoderV2):
    """The same layers and variables; attention stays within a text, and its positions begin at 0.

    Its inputs have two more entries, int32 [n, T]: position_ids, and document_ids, equal within a text, from 1 on,
    and 0 for padding.
    """

    def call(self, inputs):
        words = self._embedding_layer(inputs["input_word_ids"])
        # Called for its variable alone: its own positions begin with the sequence.
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
