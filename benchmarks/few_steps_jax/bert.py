"""A small BERT on WikiText-2."""

import jax
import jax.numpy as jnp
import numpy as np
import task

from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.models import bert, initializers


class BERT(task.Task):
    """BERT of two layers of 64 on WikiText-2 in sequences of 32, with dynamic masking; masked-LM accuracy."""

    held_out_count = 2048
    predictions = 5
    output_bias = "output_bias/bias"

    def __init__(self, folder):
        manifest = bert_manifest.load(folder)
        self.vocabulary = manifest.vocabulary
        self.size = len(manifest.vocabulary)
        self.frequencies = initializers.frequency_bias(manifest.token_counts).astype(np.float32)
        self.data = {split: self._read(manifest, split) for split in ("train", "validation")}
        self.examples = len(self.data["train"]["ids"])
        self.length = manifest.max_seq_length

    def build(self):
        return bert.pretrainer(
            vocabulary_size=self.size,
            layers=2,
            hidden_units=64,
            heads=1,
            inner_units=256,
            dropout=0.0,
            attention_dropout=0.0,
            max_positions=self.length,
        )

    @staticmethod
    def _read(manifest, split):
        """Arrays of a split: ids [n, T], sizes, first_lengths and next_sentence [n], int32."""
        ids, sizes, first, following = [], [], [], []
        for values in task.records(manifest.splits[split]):
            tokens = np.frombuffer(values["ids"], "<u2")
            ids.append(np.pad(tokens, (0, manifest.max_seq_length - len(tokens))))
            sizes.append(len(tokens))
            first.append(values["first_length"])
            following.append(values.get("next_sentence_labels", 0))
        found = {"ids": ids, "sizes": sizes, "first": first, "next": following}
        return {name: np.array(values, np.int32) for name, values in found.items()}

    def batch(self, carried, examples, step, batch_size):
        return {name: values[examples] for name, values in self.data["train"].items()}

    def masked(self, batch, key):
        """(inputs, positions [n, 5], labels, weights): of 15% of the words 80% become [MASK], 10% a random word."""
        ids, sizes = batch["ids"], batch["sizes"]
        position = jnp.arange(ids.shape[1])
        special = (ids == self.vocabulary.classify) | (ids == self.vocabulary.separate)
        may = (position < sizes[:, None]) & ~special
        choose, how, other = jax.random.split(key, 3)
        scores = jnp.where(may, jax.random.uniform(choose, ids.shape), -1.0)
        _, positions = jax.lax.top_k(scores, self.predictions)
        count = jnp.clip(jnp.round(0.15 * sizes).astype(jnp.int32), 1, self.predictions)
        weights = (jnp.arange(self.predictions) < jnp.minimum(count, may.sum(1))[:, None]).astype(jnp.float32)
        labels = jnp.take_along_axis(ids, positions, 1)
        fate = jax.random.uniform(how, positions.shape)
        replaced = jnp.where(fate < 0.8, self.vocabulary.mask, labels)
        replaced = jnp.where(fate >= 0.9, jax.random.randint(other, positions.shape, 0, self.size), replaced)
        replaced = jnp.where(weights > 0, replaced, labels)
        row = jnp.arange(len(ids))[:, None]
        return ids.at[row, positions].set(replaced), positions, labels, weights

    def logits(self, state, inputs, positions, batch, training=False):
        """(logits of the words at the masked positions and of the next sentence, by name; the others afterwards).

        Args:
          state: (weights, others).
          inputs: int32 [n, T], with the masked words replaced.
          positions: int32 [n, 5], of the masked words.
          batch: its sizes and the lengths of its first texts, int32 [n].
          training: whether dropout is active.
        """
        position = jnp.arange(inputs.shape[1])
        there = position < batch["sizes"][:, None]
        features = {
            "input_word_ids": inputs,
            "input_mask": there.astype(jnp.int32),
            "input_type_ids": (there & (position >= batch["first"][:, None])).astype(jnp.int32),
            "masked_lm_positions": positions,
        }
        return self.call(state, features, training)

    def loss(self, weights, others, batch, key):
        inputs, positions, labels, label_weights = self.masked(batch, key)
        logits, others = self.logits((weights, others), inputs, positions, batch, training=True)
        words = (task.cross_entropy(logits["masked_lm"], labels) * label_weights).sum() / label_weights.sum()
        return words + task.cross_entropy(logits["next_sentence"], batch["next"]).mean(), (others, ())

    def metric(self, state, split):
        data = self.data["validation"]
        if split == "validation":
            data = {name: values[self.held_out] for name, values in self.data["train"].items()}

        def turn(key):
            inputs, positions, labels, label_weights = self.masked(data, key)
            logits, _ = self.logits(state, inputs, positions, data)
            return ((logits["masked_lm"].argmax(-1) == labels) * label_weights).sum() / label_weights.sum()

        # Four draws of the masks, the same for every run.
        return 100.0 * jax.lax.map(turn, jax.random.split(jax.random.key(0), 4)).mean()
