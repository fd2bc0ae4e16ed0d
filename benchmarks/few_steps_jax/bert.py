"""A small BERT on WikiText-2."""

import jax
import jax.numpy as jnp
import numpy as np
import task

from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.models import initializers


class BERT(task.Task):
    """BERT of two layers of 64 on WikiText-2 in sequences of 32, with dynamic masking; masked-LM accuracy."""

    held_out_count = 2048
    width, inner, layers, predictions = 64, 256, 2, 5

    def __init__(self, folder):
        manifest = bert_manifest.load(folder)
        self.vocabulary = manifest.vocabulary
        self.size = len(manifest.vocabulary)
        self._bias = initializers.log_frequencies(manifest.token_counts).astype(np.float32)
        self.data = {split: self._read(manifest, split) for split in ("train", "validation")}
        self.examples = len(self.data["train"]["ids"])
        width, length = self.width, manifest.max_seq_length
        self.shapes = {
            "word_embeddings/embeddings": (self.size, width),
            "position_embedding/embeddings": (length, width),
            "type_embeddings/embeddings": (2, width),
            "embeddings/layer_norm/gamma": (width,),
            "embeddings/layer_norm/beta": (width,),
        }
        for layer in range(self.layers):
            name = f"transformer/layer_{layer}"
            for part in ("query", "key", "value"):
                self.shapes |= {f"{name}/{part}/kernel": (width, 1, width), f"{name}/{part}/bias": (1, width)}
            self.shapes |= {
                f"{name}/attention_output/kernel": (1, width, width),
                f"{name}/attention_output/bias": (width,),
                f"{name}/attention_layer_norm/gamma": (width,),
                f"{name}/attention_layer_norm/beta": (width,),
                f"{name}/intermediate/kernel": (width, self.inner),
                f"{name}/intermediate/bias": (self.inner,),
                f"{name}/output/kernel": (self.inner, width),
                f"{name}/output/bias": (width,),
                f"{name}/output_layer_norm/gamma": (width,),
                f"{name}/output_layer_norm/beta": (width,),
            }
        self.shapes |= {
            "pooler/kernel": (width, width),
            "pooler/bias": (width,),
            "masked_lm/transform/kernel": (width, width),
            "masked_lm/transform/bias": (width,),
            "masked_lm/layer_norm/gamma": (width,),
            "masked_lm/layer_norm/beta": (width,),
            "masked_lm/output_bias": (self.size,),
            "next_sentence/kernel": (width, 2),
            "next_sentence/bias": (2,),
        }

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

    def initial(self, path, draw, shape, bias):
        if path == "masked_lm/output_bias":
            return self._bias if bias == "frequency" else np.zeros(shape)
        if path.endswith(("gamma", "bias", "beta")):
            return np.full(shape, float(path.endswith("gamma")))
        return 0.02 * np.clip(draw.standard_normal(shape), -2.0, 2.0)

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

    def logits(self, weights, inputs, positions, batch):
        """(logits of the words at `positions` [n, 5, vocabulary], of the next sentence [n, 2]).

        Args:
          weights: in the order of `shapes`.
          inputs: int32 [n, T], with the masked words replaced.
          positions: int32 [n, 5], of the masked words.
          batch: its sizes and the lengths of its first texts, int32 [n].
        """
        named = dict(zip(self.shapes, weights))
        position = jnp.arange(inputs.shape[1])
        there = position < batch["sizes"][:, None]
        types = (there & (position >= batch["first"][:, None])).astype(jnp.int32)
        words, kinds = named["word_embeddings/embeddings"], named["type_embeddings/embeddings"]
        # As products: on a GPU the gradient of a lookup adds to the rows of frequent tokens one after the other.
        values = jax.nn.one_hot(inputs, self.size) @ words + jax.nn.one_hot(types, 2) @ kinds
        values += named["position_embedding/embeddings"]
        values = _normalised(values, named, "embeddings/layer_norm")
        for layer in range(self.layers):
            values = self._layer(values, there, named, f"transformer/layer_{layer}")
        pooled = jnp.tanh(values[:, 0] @ named["pooler/kernel"] + named["pooler/bias"])
        chosen = jnp.take_along_axis(values, positions[..., None], 1)
        chosen = chosen @ named["masked_lm/transform/kernel"] + named["masked_lm/transform/bias"]
        chosen = _normalised(jax.nn.gelu(chosen, approximate=False), named, "masked_lm/layer_norm")
        of_words = chosen @ words.T + named["masked_lm/output_bias"]
        return of_words, pooled @ named["next_sentence/kernel"] + named["next_sentence/bias"]

    def _layer(self, values, there, named, name):
        query, key, value = (
            values @ named[f"{name}/{part}/kernel"][:, 0] + named[f"{name}/{part}/bias"][0]
            for part in ("query", "key", "value")
        )
        scores = query @ jnp.swapaxes(key, 1, 2) / np.sqrt(self.width)
        shares = jax.nn.softmax(jnp.where(there[:, None], scores, -1e9), axis=-1)
        attended = shares @ value @ named[f"{name}/attention_output/kernel"][0]
        attended += named[f"{name}/attention_output/bias"]
        values = _normalised(values + attended, named, f"{name}/attention_layer_norm")
        inner = jax.nn.gelu(
            values @ named[f"{name}/intermediate/kernel"] + named[f"{name}/intermediate/bias"], approximate=False
        )
        output = inner @ named[f"{name}/output/kernel"] + named[f"{name}/output/bias"]
        return _normalised(values + output, named, f"{name}/output_layer_norm")

    def loss(self, weights, batch, key):
        inputs, positions, labels, label_weights = self.masked(batch, key)
        logits, following = self.logits(weights, inputs, positions, batch)
        words = (task.cross_entropy(logits, labels) * label_weights).sum() / label_weights.sum()
        return words + task.cross_entropy(following, batch["next"]).mean(), ()

    def metric(self, weights, split):
        data = self.data["validation"]
        if split == "validation":
            data = {name: values[self.held_out] for name, values in self.data["train"].items()}

        def turn(key):
            inputs, positions, labels, label_weights = self.masked(data, key)
            logits, _ = self.logits(weights, inputs, positions, data)
            return ((logits.argmax(-1) == labels) * label_weights).sum() / label_weights.sum()

        # Four draws of the masks, the same for every run.
        return 100.0 * jax.lax.map(turn, jax.random.split(jax.random.key(0), 4)).mean()


def _normalised(values, named, name):
    mean, variance = values.mean(-1, keepdims=True), values.var(-1, keepdims=True)
    return (values - mean) * jax.lax.rsqrt(variance + 1e-12) * named[f"{name}/gamma"] + named[f"{name}/beta"]
