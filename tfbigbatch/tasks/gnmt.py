"""Translation by GNMT: the recurrent benchmark of MLPerf v0.5 to v0.7.

The data is a folder that prepare-wmt wrote.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.vocabulary import BEGIN, END, Vocabulary, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.tasks import output_bias
from tfbigbatch.tasks.base import Task, fact
from tfbigbatch.tasks.output_bias import ConstantLoss
from tfbigbatch.tasks.scores import bleu

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


class Gnmt(Task):
    """Translation of sentences.

    A training batch is cut to the shape of its bucket; see `TranslationRecords`. An evaluation gives the perplexity
    of the references, and BLEU of the translations that a beam search finds.

    The model's fields are those of `gnmt.gnmt` and of the loss; the data's are those of `TranslationRecords`, of
    the search (`gnmt.translate`) and of the score (`bleu`).

    `model.output_bias` is the initial bias of the logits, one of `output_bias.CHOICES`.
    """

    model_defaults = {
        "hidden_units": 1024,
        "embedding_units": 1024,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "dropout": 0.2,
        "initial_scale": 0.1,
        "label_smoothing": 0.1,
        "loss_over": "sentences",
        "output_bias": output_bias.DEFAULT,
        "recompute": False,
    }
    data_defaults = {
        "most_shapes": 5,
        "block": 50,
        "max_bad_fraction": 0.0001,
        "beam_size": 5,
        "length_penalty": 0.6,
        "coverage_penalty": 0.1,
        "max_decoded": 80,
        "lowercase": False,
        "tokenize": "13a",
    }
    quick_sizes = {"hidden_units": 128, "embedding_units": 128, "encoder_layers": 1, "decoder_layers": 2}
    target = "bleu"
    evaluates_on = ("validation", "test")
    metrics_in_training = False  # Over a vocabulary they cost as much as the loss.
    has_scores = metrics_with_scores = True

    @classmethod
    def smoke_model(cls, model: Mapping[str, Any]) -> dict[str, Any]:
        layers = {field: min(model[field], 3) for field in ("encoder_layers", "decoder_layers")}
        return {"hidden_units": 8, "embedding_units": 8, **layers}

    @classmethod
    def quick_data(cls, data: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
        # Each shape is traced by itself; a network of a few minutes ends few sentences, so that a search is long.
        most = {"most_shapes": 2, "beam_size": 2, "max_decoded": 40}
        return {field: min(data[field], size) for field, size in most.items()}

    def __init__(
        self, *, model: Mapping[str, Any], data: Mapping[str, Any], data_dir: str | None, use_fake_data: bool
    ) -> None:
        from tfbigbatch.data.translation.dataset import TranslationRecords

        self._model = dict(model)
        options = dict(data)
        self._search = {name: options.pop(name) for name in ("beam_size", "length_penalty", "coverage_penalty")}
        self._max_decoded = options.pop("max_decoded")
        self._bleu = {name: options.pop(name) for name in ("lowercase", "tokenize")}
        if use_fake_data:
            # Lives as long as the task: its records are read from it.
            self._made_up = tempfile.TemporaryDirectory()
            manifest = fake.pairs(self._made_up.name)
            # Each shape is a branch of the step, and a second to trace.
            options["most_shapes"] = min(options["most_shapes"], 2)
            # An untrained network ends few sentences, and the made-up ones are shorter.
            self._max_decoded = min(self._max_decoded, 20)
        else:
            manifest = translation_manifest.load(data_dir)
        held_out = [name for name in self.evaluates_on if name in manifest.splits]
        if not held_out:
            raise InputError(
                f"--data_dir={data_dir} has neither a validation nor a test set. Prepare it with --valid_source_files "
                "or --test_source_files, and their targets."
            )
        self._manifest = manifest
        self._output_bias = output_bias.OutputBias(
            model["output_bias"], manifest, built="uniform", scale=model["initial_scale"]
        )
        self.vocabulary: Vocabulary = manifest.vocabulary
        self.data_signature = f"{len(self.vocabulary):,} pieces"
        self.network_facts = {"vocabulary_size": len(self.vocabulary)}
        self.score_signature = bleu(["a"], ["a"], **self._bleu)["signature"]
        # With the vocabulary, a run directory is enough to translate.
        self.run_files = {translation_manifest.VOCABULARY: self.vocabulary.content}
        self.train = TranslationRecords(manifest.splits["train"], manifest, **options)
        # One shape holds all sentences; those of a batch are of about the same length.
        options["most_shapes"] = 1
        self._held_out = {name: TranslationRecords(manifest.splits[name], manifest, **options) for name in held_out}
        vars(self).update(self._held_out)
        self.batch_slices = self.train.batch_slices
        self.checks = tuple(split.bad.check for split in (self.train, *self._held_out.values()))

    def network(self) -> keras.Model:
        """The Keras model, from the pieces of sources and targets to logits."""
        network = self.network_from(self._model, self.network_facts)
        self._output_bias.initialize(network.classifier.bias)
        return network

    @classmethod
    def network_from(cls, model: Mapping[str, Any], facts: Mapping[str, Any]) -> keras.Model:
        from tfbigbatch.models import gnmt

        # What the loss and the bias take.
        others = ("label_smoothing", "loss_over", "output_bias")
        fields = {name: value for name, value in model.items() if name not in others}
        return gnmt.gnmt(vocabulary_size=fact(facts, "vocabulary_size"), **fields)

    def banner_lines(self) -> list[str]:
        return [self._output_bias.line]

    def constant_loss(self) -> ConstantLoss:
        return ConstantLoss(
            "loss",
            self._output_bias.counts,
            label_smoothing=self._model["label_smoothing"],
            tokens=1.0 if self._model["loss_over"] == "tokens" else self.train.tokens_per_example or 1.0,
        )

    def loss(self) -> keras.losses.Loss:
        from tfbigbatch.tasks.losses import SmoothedTokenCrossEntropy

        return SmoothedTokenCrossEntropy(self._model["label_smoothing"], self._model["loss_over"])

    def metrics(self) -> list[keras.metrics.Metric]:
        """Metrics of the references, given as the decoder's inputs."""
        from tfbigbatch.tasks.losses import token_metrics

        return token_metrics()

    def predictions(self, network: keras.Model, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The pieces of the best translations of `TranslationRecords`: int32 [n, max_decoded], padded with END."""
        import tensorflow as tf

        from tfbigbatch.models import gnmt

        found = gnmt.translate(
            network,
            features["source_ids"],
            features["source_lengths"],
            begin_token=BEGIN,
            end_token=END,
            max_length=self._max_decoded,
            **self._search,
        )
        return tf.ensure_shape(found.tokens, [None, self._max_decoded])

    def texts(self, outputs: np.ndarray) -> list[str]:
        """The lines of the translations that `predictions` gave, int32 [n, max_decoded]."""
        return texts_of(self.vocabulary, outputs)

    def in_order(self, held_out: Any, outputs: np.ndarray) -> np.ndarray:
        """The outputs in the order of the pairs; they are evaluated by length."""
        found = np.empty_like(outputs)
        found[held_out.evaluation_order] = outputs
        return found

    def scores(self, held_out: Any, outputs: np.ndarray) -> dict[str, float]:
        """'bleu', in [0, 100], against the references as they were before any preparation."""
        split = next(name for name, records in self._held_out.items() if records is held_out)
        _, references = self._manifest.texts(split)
        found = bleu(self.texts(outputs), references, **self._bleu)
        return {"bleu": found["score"]}


def texts_of(vocabulary: Vocabulary, outputs: np.ndarray) -> list[str]:
    """The detokenized lines of a search's outputs, int32 [n, length] padded with END; all white space is one space.

    Bytes that the network put together may be a line break, which would shift all lines after it.
    """
    lengths = np.where((outputs == END).any(axis=1), (outputs == END).argmax(axis=1), outputs.shape[1])
    return [normalised(vocabulary.text(row[:length].tolist())) for row, length in zip(outputs, lengths)]
