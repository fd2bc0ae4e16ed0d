"""A small GNMT on Multi30k."""

import os

import jax
import jax.numpy as jnp
import keras
import numpy as np
import task

from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.vocabulary import BEGIN, END, normalised
from tfbigbatch.models import gnmt, initializers
from tfbigbatch.tasks.scores import bleu


class Multi30k(task.Task):
    """GNMT of one bidirectional and two further LSTMs of 192 on Multi30k; BLEU of a greedy search.

    A sentence has the length of the longest, padded, and a batch is drawn from all of them, where the trainer's
    passes are of one bucket of lengths.
    """

    own_validation = True
    micro_batch = 256
    output_bias = "classifier/bias"
    label_smoothing = 0.1
    most_decoded = 60

    def __init__(self, folder):
        manifest = translation_manifest.load(os.fspath(folder))
        self.vocabulary = manifest.vocabulary
        self.size = len(manifest.vocabulary)
        self.frequencies = initializers.frequency_bias(manifest.token_counts).astype(np.float32)
        splits = ("train", "validation", "test")
        # With END, and BEGIN before a target.
        self.source_length, self.target_length = (
            1 + max(int(manifest.lengths[split][:, side].max()) for split in splits) for side in (0, 1)
        )
        self.data = {split: self._read(manifest, split) for split in splits}
        self.references = {split: manifest.texts(split)[1] for split in splits[1:]}
        self.examples = len(self.data["train"]["source"])

    def build(self):
        return gnmt.gnmt(
            vocabulary_size=self.size, hidden_units=192, encoder_layers=1, decoder_layers=2, initial_scale=0.2
        )

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

    def batch(self, carried, examples, step, batch_size):
        return {name: values[examples] for name, values in self.data["train"].items()}

    def loss(self, weights, others, batch, key):
        before = jnp.pad(batch["target"], ((0, 0), (1, 0)), constant_values=BEGIN)[:, :-1]
        sentences = {"source_ids": batch["source"], "source_lengths": batch["source_length"], "target_ids": before}
        logits, others = self.call((weights, others), sentences, training=True)
        log_probabilities = jax.nn.log_softmax(logits)
        labels, smoothing = batch["target"], self.label_smoothing
        of_label = jnp.take_along_axis(log_probabilities, labels[..., None], -1)[..., 0]
        nats = -(1 - smoothing) * of_label - smoothing * log_probabilities.mean(-1)
        there = jnp.arange(labels.shape[1]) < batch["target_length"][:, None]
        return (nats * there).sum() / len(labels), (others, ())

    def metric(self, state, split):
        """int32 [sentences, most_decoded]: the most likely token at each step."""
        batch, network = self.data[split], self.network
        sentences = len(batch["source"])
        values = zip((*network.trainable_variables, *network.non_trainable_variables), (*state[0], *state[1]))
        with keras.StatelessScope(state_mapping=list(values)):
            memory = network.encode(batch["source"], batch["source_length"])

            def step(state, _):
                token, first, second = state
                lstms = network.decoder.lstms
                output, first = lstms[0].cell(network.embedding(token), first)
                context, _ = network.decoder.attention(output[:, None], memory)
                output, second = lstms[1].cell(jnp.concatenate([output, context[:, 0]], -1), second)
                token = network.classifier(output).argmax(-1).astype(jnp.int32)
                return (token, list(first), list(second)), token

            zero = [jnp.zeros((sentences, network.decoder.lstms[0].units))] * 2
            start = jnp.full((sentences,), BEGIN, jnp.int32), zero, zero
            return jax.lax.scan(step, start, None, self.most_decoded)[1].T

    def score(self, found, split):
        """BLEU of what `metric` found."""
        lines = [normalised(self.vocabulary.text(row.tolist())) for row in np.asarray(found)]
        return bleu(lines, self.references[split])["score"]
