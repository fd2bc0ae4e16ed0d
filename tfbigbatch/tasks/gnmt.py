"""Translation of sentences by GNMT: the recurrent benchmark of MLPerf v0.5 to v0.7.

The data is a folder that tools/prepare_wmt.py wrote.
"""

import tempfile

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch.data.translation import fake
from tfbigbatch.data.translation import manifest as translation_manifest
from tfbigbatch.data.translation.dataset import TranslationRecords
from tfbigbatch.data.translation.vocabulary import BEGIN, END, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.models.gnmt import decoding
from tfbigbatch.models.gnmt import network as gnmt_model
from tfbigbatch.tasks.perplexity import Perplexity
from tfbigbatch.tasks.scores.bleu import bleu, signature
from tfbigbatch.tasks.smoothed_tokens import SmoothedTokenCrossEntropy


class Gnmt:
    """A task: model, data, loss, metrics and target.

    Training cuts each batch to the shape of its bucket; see `TranslationRecords`. An evaluation gives the perplexity
    of the references, and BLEU of what a beam search makes of the sources.

    Attributes:
      models, training_examples: none; there is one model, and the data tells its size.
      model_defaults: the fields of the model that an experiment may set; see `gnmt.gnmt`.
      data_defaults: those of the pipeline (see `TranslationRecords`), of the search (`gnmt_decoding.translate`), and of
        the score (`bleu`).
      target, higher_is_better: the metric that tells the quality of a run, and its direction.
      evaluates_on: the held-out sets, of which a config names one.
      carries_state: no state goes on from one update to the next.
      metrics_in_training: whether training steps update the metrics; over a vocabulary one costs as much as the loss.
      metrics_beside_scores: an evaluation gives both.
      data_decides: what the data decides about the network, in words.
      signature: sacrebleu's, without which the score cannot be compared.
      train, validation, test: `TranslationRecords`, or a few made-up pairs.
      cuts: functions that cut a training batch to the shape of a bucket, in the order of the buckets.
      checks: functions that raise where too many of their records are bad.

    Args:
      model: dictionary of the model's fields.
      data: dictionary of the pipeline's, the search's and the score's.
      data_dir: a prepared folder.
      use_fake_data: a few made-up pairs in its place.
    """

    models = ()
    training_examples = None
    model_defaults = {
        "hidden_units": 1024,
        "embedding_units": 1024,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "dropout": 0.2,
        "initial_scale": 0.1,
        "label_smoothing": 0.1,
        "loss_over": "sentences",
    }
    data_defaults = {
        "most_shapes": 5,
        "block": 50,
        "max_bad_share": 0.0001,
        "beam_size": 5,
        "length_penalty": 0.6,
        "coverage_penalty": 0.1,
        "max_decoded": 80,
        "lowercase": False,
        "tokenize": "13a",
    }
    target = "bleu"
    higher_is_better = True
    evaluates_on = ("validation", "test")
    carries_state = False
    metrics_in_training = False
    metrics_beside_scores = True

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        del model
        return {"hidden_units": 8, "embedding_units": 8, "encoder_layers": 3, "decoder_layers": 3}

    def __init__(self, *, model, data, data_dir, use_fake_data):
        self._model = dict(model)
        self._loss = {name: self._model[field] for name, field in _OF_LOSS.items()}
        data = dict(data)
        self._search = {name: data.pop(name) for name in ("beam_size", "length_penalty", "coverage_penalty")}
        self._max_decoded = data.pop("max_decoded")
        self._bleu = {name: data.pop(name) for name in ("lowercase", "tokenize")}
        if use_fake_data:
            # Lives as long as the task: its records are read from it.
            self._made_up = tempfile.TemporaryDirectory()
            manifest = fake.pairs(self._made_up.name)
            # Each shape is a branch of the step, and a second to trace.
            data["most_shapes"] = min(data["most_shapes"], 2)
            # An untrained network ends few sentences, and the made-up ones are shorter.
            self._max_decoded = min(self._max_decoded, 20)
        else:
            manifest = translation_manifest.load(data_dir)
        missing = [name for name in self.evaluates_on if name not in manifest.splits]
        if missing:
            raise InputError(
                f"--data_dir={data_dir} has no {missing[0]} set. Prepare it with --valid_source_files, "
                "--test_source_files and their targets."
            )
        self._manifest = manifest
        self.data_decides = f"{len(manifest.vocabulary):,} pieces"
        self.signature = signature(**self._bleu)
        self.train = TranslationRecords(manifest.splits["train"], manifest, **data)
        # In the corpus' order short and long sentences come together: one shape holds them all.
        data["most_shapes"] = 1
        self.validation, self.test = (
            TranslationRecords(manifest.splits[name], manifest, **data) for name in self.evaluates_on
        )
        self.cuts = self.train.cuts
        self.checks = tuple(each.bad.check for each in (self.train, self.validation, self.test))

    @property
    def vocabulary(self):
        """The `translation_vocabulary.Vocabulary` of the data."""
        return self._manifest.vocabulary

    @property
    def kept(self):
        """What a run directory keeps of the data, so that translations need nothing else: names to bytes."""
        return {translation_manifest.VOCABULARY: self.vocabulary.model}

    def network(self):
        """The Keras model, from the pieces of sources and targets to logits."""
        return network_of(self._model, len(self.vocabulary))

    def loss(self):
        """The loss that is trained, of logits."""
        return SmoothedTokenCrossEntropy(**self._loss)

    def metrics(self):
        """Weighted metrics of the references, each a sum and a count, so that a mask leaves padding out."""
        cross_entropy = tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)
        return [cross_entropy, Perplexity(cross_entropy)]

    def predicted(self, network, features):
        """What is scored of a batch: the pieces of its best translations.

        Args:
          network: as `network` makes it.
          features: dictionary of 'source_ids' and 'source_lengths'; see `TranslationRecords`.

        Returns:
          int32 [n, max_decoded], END behind the last piece.
        """
        found = decoding.translate(
            network,
            features["source_ids"],
            features["source_lengths"],
            begin_token=BEGIN,
            end_token=END,
            max_length=self._max_decoded,
            **self._search,
        )
        return tf.ensure_shape(found.tokens[:, 0], [None, self._max_decoded])

    def texts(self, outputs):
        """The lines of translations, of what `predicted` gave: int32 [n, max_decoded]."""
        return texts_of(self.vocabulary, outputs)

    def scores(self, held_out, outputs):
        """'bleu', in [0, 100], of the texts as they were before any preparation.

        Args:
          held_out: the set that was evaluated.
          outputs: int32 [sentences, max_decoded], as `predicted` gives them.
        """
        split = next(name for name in self.evaluates_on if getattr(self, name) is held_out)
        _, references = self._manifest.texts(split)
        found = bleu(self.texts(outputs), references, **self._bleu)
        return {"bleu": found["score"]}


_OF_LOSS = {"label_smoothing": "label_smoothing", "over": "loss_over"}


def network_of(model, vocabulary_size):
    """The Keras model of a config's model fields; see `gnmt.gnmt`.

    Args:
      model: dictionary of the fields of `Gnmt.model_defaults`.
      vocabulary_size: pieces of the vocabulary.
    """
    fields = {name: value for name, value in model.items() if name not in _OF_LOSS.values()}
    return gnmt_model.gnmt(vocabulary_size=vocabulary_size, **fields)


def texts_of(vocabulary, outputs):
    """The lines that a search's outputs stand for, detokenised, with single spaces for all white space.

    Bytes that the network put together may be a line's end, which would put all lines after it out of step.

    Args:
      vocabulary: `translation_vocabulary.Vocabulary`.
      outputs: int32 [n, any], END behind the last piece.
    """
    return [normalised(vocabulary.text(_before_end(row))) for row in outputs]


def _before_end(row):
    [ends] = np.nonzero(row == END)
    return row[: ends[0]].tolist() if len(ends) else row.tolist()
