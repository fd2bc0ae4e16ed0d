"""Perplexity: how many words a language model is, on average, in doubt between."""

import tensorflow as tf
import tf_keras


class Perplexity(tf_keras.metrics.SparseCategoricalCrossentropy):
    """exp of the mean nats a token, of logits: a sum and a count, so exact over batches, masks and replicas."""

    def __init__(self, name="perplexity"):
        super().__init__(name=name, from_logits=True)

    def result(self):
        return tf.exp(super().result())

    def get_config(self):
        return {"name": self.name}
