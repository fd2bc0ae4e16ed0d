"""BERT's pretraining on a prepared text: which words the masked ones are, and which sentence follows.

The data is a folder that tools/prepare_bert.py wrote, or one with such folders in it, of which `data.folder`
names one: phases of several sequence lengths read several.
"""

import os
import tempfile

import tf_keras

from tfbigbatch.data import fake
from tfbigbatch.data.bert import manifest as bert_manifest
from tfbigbatch.data.bert.dataset import BertRecords
from tfbigbatch.errors import InputError
from tfbigbatch.models import bert, bert_checkpoints
from tfbigbatch.tasks.masked_mean import MaskedMeanCrossEntropy
from tfbigbatch.tasks.perplexity import Perplexity


class BertPretraining:
    """A task: model, data, loss, metrics and target.

    The loss is the sum of two means: nats a masked word, and, where the data has it, nats a next sentence. With
    several replicas or micro-batches each takes its own mean, as in the published trainers.

    A model may begin with a checkpoint's values (`model.init_checkpoint`, see `bert_checkpoints.read`).

    Attributes:
      models: the names of the sizes, of which a config names one.
      data_defaults: those of the pipeline; see `BertRecords`.
      target, higher_is_better: the metric that tells the quality of a run, and its direction.
      evaluates_on: the held-out sets, of which a config names one.
      carries_state: no state goes on from one update to the next.
      metrics_in_training: whether training steps update the metrics; over a vocabulary one costs as much as the loss.
      data_decides: what the data decides about the network, in words; the same in all phases of a run.
      scores: None; the metrics tell all.
      training_examples: None; known from the data.
      train, validation: `BertRecords`, or a made-up text.
      checks: functions that raise where too many of their records are bad.

    Args:
      model: dictionary of the model's fields: its name, and its own.
      data: dictionary of the pipeline's.
      data_dir: a prepared folder.
      use_fake_data: a small made-up text in its place.
    """

    models = tuple(bert.SIZES)
    data_defaults = {
        "folder": "",
        "whole_word": False,
        "masked_share": 0.15,
        "shuffle_window": 65536,
        "cache_records": False,
        "max_bad_share": 0.0,
    }
    target = "masked_lm_accuracy"
    higher_is_better = True
    evaluates_on = ("validation",)
    carries_state = False
    metrics_in_training = False
    training_examples = scores = None

    @classmethod
    def model_defaults_of(cls, name):
        """The fields of the size `name` that an experiment may set.

        Raises:
          ValueError: the name is unknown.
        """
        return {"name": name, **bert.defaults(name), "init_checkpoint": ""}

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        del model
        sizes = {"layers": 1, "hidden_units": 8, "heads": 2, "inner_units": 16, "max_positions": 64}
        return {"name": "bert_tiny", **sizes, "init_checkpoint": ""}

    def __init__(self, *, model, data, data_dir, use_fake_data):
        self._model = {name: value for name, value in model.items() if name not in ("name", "init_checkpoint")}
        self._init_checkpoint = model["init_checkpoint"]
        data = dict(data)
        folder = data.pop("folder")
        if use_fake_data:
            # Lives as long as the task: its records are read from it.
            self._made_up = tempfile.TemporaryDirectory()
            manifest = fake.pretraining(self._made_up.name)
        elif data_dir is None:
            manifest = bert_manifest.load(None)
        else:
            manifest = bert_manifest.load(os.path.join(data_dir, folder) if folder else data_dir)
        if "validation" not in manifest.splits:
            raise InputError(
                f"--data_dir={data_dir} has no validation split. Prepare the text with --validation_share above 0."
            )
        if manifest.max_seq_length > self._model["max_positions"]:
            raise InputError(
                f"model.max_positions={self._model['max_positions']}: the data has sequences of "
                f"{manifest.max_seq_length} tokens."
            )
        self._next_sentence, self._packed = manifest.next_sentence, manifest.packed
        self._vocabulary_size = len(manifest.vocabulary)
        pairs = "pairs" if manifest.next_sentence else "no pairs"
        packed = ", packed" if manifest.packed else ""
        self.data_decides = f"{self._vocabulary_size:,} tokens and {pairs} of segments{packed}"
        self.train, self.validation = (
            BertRecords(manifest.splits[name], manifest, **data) for name in ("train", "validation")
        )
        self.checks = (self.train.bad.check, self.validation.bad.check)

    def network(self):
        """The Keras model, from tokens to logits; with the values of `model.init_checkpoint`, where one is named."""
        network = bert.pretrainer(
            vocabulary_size=self._vocabulary_size,
            next_sentence=self._next_sentence,
            packed=self._packed,
            **self._model,
        )
        bert_checkpoints.begin_with(network, self._init_checkpoint)
        return network

    def loss(self):
        """The losses of the outputs, whose sum is trained."""
        return {name: MaskedMeanCrossEntropy(name=f"{name}_nats") for name in self._outputs()}

    def metrics(self):
        """Weighted metrics of each output, each a sum and a count, so that a mask leaves padding out."""
        # Keras puts the output's name before a metric's where there are several outputs.
        before = "" if self._next_sentence else "masked_lm_"
        cross_entropy = tf_keras.metrics.SparseCategoricalCrossentropy(name=f"{before}cross_entropy", from_logits=True)
        found = {
            "masked_lm": [
                tf_keras.metrics.SparseCategoricalAccuracy(name=f"{before}accuracy"),
                cross_entropy,
                Perplexity(cross_entropy, name=f"{before}perplexity"),
            ],
            "next_sentence": [tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        }
        return {name: found[name] for name in self._outputs()}

    def _outputs(self):
        return ("masked_lm", "next_sentence") if self._next_sentence else ("masked_lm",)
