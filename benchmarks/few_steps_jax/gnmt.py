"""A small GNMT on Multi30k."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import task

from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.vocabulary import BEGIN, END, normalised
from tfbigbatch.models import initializers
from tfbigbatch.tasks.scores import bleu


class Multi30k(task.Task):
    """GNMT of one bidirectional and two further LSTMs of 192 on Multi30k; BLEU of a greedy search.

    A sentence has the length of the longest, padded, and a batch is drawn from all of them, where the trainer's
    passes are of one bucket of lengths.
    """

    own_validation = True
    micro_batch = 512
    units, scale, dropout, label_smoothing = 192, 0.2, 0.2, 0.1
    most_decoded = 60

    def __init__(self, folder):
        manifest = translation_manifest.load(os.fspath(folder))
        self.vocabulary = manifest.vocabulary
        self.size = len(manifest.vocabulary)
        self._bias = initializers.log_frequencies(manifest.token_counts).astype(np.float32)
        splits = ("train", "validation", "test")
        # With END, and BEGIN before a target.
        self.source_length, self.target_length = (
            1 + max(int(manifest.lengths[split][:, side].max()) for split in splits) for side in (0, 1)
        )
        self.data = {split: self._read(manifest, split) for split in splits}
        self.references = {split: manifest.texts(split)[1] for split in splits[1:]}
        self.examples = len(self.data["train"]["source"])
        units, gates = self.units, 4 * self.units
        self.shapes = {"embedding/embeddings": (self.size, units)}
        for layer, width in (
            ("encoder/forward", units),
            ("encoder/backward", units),
            ("decoder/lstm_0", units),
            ("decoder/lstm_1", 3 * units),  # the output of lstm_0, and a context of both directions
        ):
            self.shapes |= {
                f"{layer}/lstm_cell/kernel": (width, gates),
                f"{layer}/lstm_cell/recurrent_kernel": (units, gates),
                f"{layer}/lstm_cell/bias": (gates,),
            }
        self.shapes |= {
            "decoder/attention/v": (units,),
            "decoder/attention/gamma": (),
            "decoder/attention/bias": (units,),
            "decoder/attention/query/kernel": (units, units),
            "decoder/attention/key/kernel": (2 * units, units),
            "classifier/kernel": (units, self.size),
            "classifier/bias": (self.size,),
        }

    def _read(self, manifest, split):
        """Arrays of a split, int32: source [n, S] and target [n, T], with END and then 0, and their lengths [n]."""
        found = {"source": [], "target": []}
        for values in task.records(manifest.splits[split]):
            for side, sentences in found.items():
                sentences.append(np.frombuffer(values[side], manifest.id_type))
        longest = {"source": self.source_length, "target": self.target_length}
        arrays = {}
        for side, sentences in found.items():
            padded = np.zeros((len(sentences), longest[side]), np.int32)
            for row, sentence in zip(padded, sentences):
                row[: len(sentence)] = sentence
                row[len(sentence)] = END
            arrays |= {side: padded, f"{side}_length": np.array([len(each) + 1 for each in sentences], np.int32)}
        return arrays

    def initial(self, path, draw, shape, bias):
        if path == "classifier/bias" and bias != "uniform":
            return self._bias if bias == "frequency" else np.zeros(shape)
        if path == "decoder/attention/gamma":
            return self.units**-0.5
        return np.zeros(shape) if path == "decoder/attention/bias" else task.uniform(draw, shape, self.scale)

    def batch(self, carried, examples, step, batch_size):
        return {name: values[examples] for name, values in self.data["train"].items()}

    def encoded(self, named, batch, keys):
        """What attention reads: values [n, S, 2 units], keys [n, S, units], and whether a token is there [n, S]."""
        embedded = task.dropped(named["embedding/embeddings"][batch["source"]], self.dropout, keys[0])
        lengths = batch["source_length"][:, None]
        position = jnp.arange(embedded.shape[1])
        there = position < lengths
        turned = jnp.where(there, lengths - 1 - position, position)[..., None]
        ahead = _all_steps(embedded, named, "encoder/forward")
        back = _all_steps(jnp.take_along_axis(embedded, turned, 1), named, "encoder/backward")
        values = jnp.concatenate([ahead, jnp.take_along_axis(back, turned, 1)], -1)
        return values, values @ named["decoder/attention/key/kernel"] + named["decoder/attention/bias"], there

    def logits(self, weights, batch, key=None):
        """float32 [n, T, vocabulary]: at t for the token after the target's first t; with dropout where there is a key.

        Args:
          weights: in the order of `shapes`.
          batch: 'source' [n, S], 'source_length' [n], 'target' [n, T].
          key: of the dropouts.
        """
        named = dict(zip(self.shapes, weights))
        keys = [None] * 3 if key is None else jax.random.split(key, 3)
        memory = self.encoded(named, batch, keys)
        before = jnp.pad(batch["target"], ((0, 0), (1, 0)), constant_values=BEGIN)[:, :-1]
        embedded = task.dropped(named["embedding/embeddings"][before], self.dropout, keys[1])
        first = _all_steps(embedded, named, "decoder/lstm_0")
        # Computed again in the backward pass: all pairs of tokens are the largest values of a step.
        context = jax.checkpoint(_attended)(first, *memory, *_of_attention(named))
        both = task.dropped(jnp.concatenate([first, context], -1), self.dropout, keys[2])
        values = _all_steps(both, named, "decoder/lstm_1")
        return values @ named["classifier/kernel"] + named["classifier/bias"]

    def loss(self, weights, batch, key):
        log_probabilities = jax.nn.log_softmax(self.logits(weights, batch, key))
        labels, smoothing = batch["target"], self.label_smoothing
        of_label = jnp.take_along_axis(log_probabilities, labels[..., None], -1)[..., 0]
        nats = -(1 - smoothing) * of_label - smoothing * log_probabilities.mean(-1)
        there = jnp.arange(labels.shape[1]) < batch["target_length"][:, None]
        return (nats * there).sum() / len(labels), ()

    def metric(self, weights, split):
        """int32 [sentences, most_decoded]: the most likely token at each step."""
        batch, named = self.data[split], dict(zip(self.shapes, weights))
        memory = self.encoded(named, batch, [None])
        sentences = len(batch["source"])
        zero = jnp.zeros((sentences, self.units))

        def step(state, _):
            token, first, second = state
            first = _one_step(named["embedding/embeddings"][token], named, "decoder/lstm_0", first)
            context = _attended(first[0][:, None], *memory, *_of_attention(named))[:, 0]
            second = _one_step(jnp.concatenate([first[0], context], -1), named, "decoder/lstm_1", second)
            scores = second[0] @ named["classifier/kernel"] + named["classifier/bias"]
            token = scores.argmax(-1).astype(jnp.int32)
            return (token, first, second), token

        start = jnp.full((sentences,), BEGIN, jnp.int32), (zero, zero), (zero, zero)
        return jax.lax.scan(step, start, None, self.most_decoded)[1].T

    def score(self, found, split):
        """BLEU of what `metric` found."""
        lines = [normalised(self.vocabulary.text(row.tolist())) for row in np.asarray(found)]
        return bleu(lines, self.references[split])["score"]


def _cell(named, layer):
    return (named[f"{layer}/lstm_cell/{part}"] for part in ("kernel", "recurrent_kernel", "bias"))


def _all_steps(inputs, named, layer):
    kernel, recurrent, bias = _cell(named, layer)
    zero = jnp.zeros((len(inputs), recurrent.shape[0]), inputs.dtype)
    return task.lstm(inputs, kernel, recurrent, bias, (zero, zero))[0]


def _one_step(inputs, named, layer, state):
    return task.lstm(inputs[:, None], *_cell(named, layer), state)[1]


def _of_attention(named):
    return (named[f"decoder/attention/{part}"] for part in ("query/kernel", "v", "gamma"))


def _attended(queries, values, keys, there, kernel, v, gamma):
    """The context of each query [n, T, units], of normalised Bahdanau attention."""
    pairs = jnp.tanh((queries @ kernel)[:, :, None] + keys[:, None])
    scores = pairs @ (gamma * v * jax.lax.rsqrt((v * v).sum()))
    return jax.nn.softmax(jnp.where(there[:, None], scores, -1e9), axis=-1) @ values
