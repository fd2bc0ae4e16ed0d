"""PTB-small."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import task

from tfbigbatch.models import initializers
from tfbigbatch.models.lstm_language_model import lstm_language_model
from tfbigbatch.utils import files


class PTB(task.Task):
    """PTB-small of Zaremba et al. 2014: two LSTMs of 200, windows of 20 words, the state carried; perplexity."""

    loss_metric = True
    carries_state = True
    own_validation = True
    window, units = 20, 200
    output_bias = "logits/bias"

    def __init__(self, folder):
        splits = {name: files.read_array(os.path.join(folder, f"{name}.npy")) for name in ("train", "valid", "test")}
        self.vocabulary = int(max(tokens.max() for tokens in splits.values())) + 1
        self.examples = len(splits["train"])
        self.data = {"train": splits["train"].astype(np.int32)}
        # As the trainer evaluates: 20 streams.
        for name, split in (("validation", "valid"), ("test", "test")):
            self.data[name] = self._windows(splits[split].astype(np.int32), 20)
        counts = np.bincount(splits["train"], minlength=self.vocabulary)
        self.frequencies = initializers.frequency_bias(counts).astype(np.float32)

    def build(self):
        return lstm_language_model(
            vocabulary_size=self.vocabulary,
            window=self.window,
            hidden_units=self.units,
            embedding_units=self.units,
            layers=2,
        )

    def examples_in_epoch(self, batch_size):
        return batch_size * self._windows_of_a_stream(batch_size)

    def carried(self, batch_size):
        return [np.zeros((batch_size, self.units), np.float32)] * 4

    def order(self, count, seed, held_out):
        return None

    def _windows_of_a_stream(self, batch_size):
        return (self.examples // batch_size - 1) // self.window

    def _windows(self, tokens, batch_size):
        """int32 [windows, batch_size, window + 1] of the streams that a text is cut in."""
        length = tokens.shape[0] // batch_size
        streams = tokens[: length * batch_size].reshape(batch_size, length)
        starts = np.arange((length - 1) // self.window) * self.window
        return np.stack([streams[:, start : start + self.window + 1] for start in starts])

    def batch(self, carried, examples, step, batch_size):
        in_epoch = step % self._windows_of_a_stream(batch_size)
        first = np.arange(batch_size) * (self.examples // batch_size)
        tokens = self.data["train"][first[:, None] + in_epoch * self.window + np.arange(self.window + 1)]
        return jax.tree.map(lambda value: jnp.where(in_epoch == 0, 0.0, value), carried), tokens

    def loss(self, weights, others, batch, key):
        carried, tokens = batch
        (logits, *carried), others = self.call((weights, others), [tokens[:, :-1], *carried], training=True)
        return task.cross_entropy(logits, tokens[:, 1:]).mean(), (others, carried)

    def metric(self, state, split):
        def window(carried, tokens):
            (logits, *carried), _ = self.call(state, [tokens[:, :-1], *carried])
            return carried, task.cross_entropy(logits, tokens[:, 1:]).mean()

        zero = jax.tree.map(jnp.asarray, self.carried(20))
        return jnp.exp(jax.lax.scan(window, zero, self.data[split])[1].mean())
