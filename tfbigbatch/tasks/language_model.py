"""A text read word by word by an LSTM: the Penn Treebank of Zaremba et al. 2014, WikiText-2, any corpus.

The data is a folder that tools/prepare_ptb.py wrote.
"""

import tf_keras

from tfbigbatch.data import fake
from tfbigbatch.data.language_model import corpus
from tfbigbatch.data.language_model.contiguous_batches import Streams
from tfbigbatch.models import lstm_language_model as model
from tfbigbatch.tasks.perplexity import Perplexity


class LSTMLanguageModel:
    """A task: model, data, loss, metrics and target.

    A batch is of streams: `batch_size` parts of the text, each read window by window. The loss is the mean
    over the streams' windows; where a text ends within a window, what is past its end counts as zero.

    Attributes:
      models, checks: none; there is one model, and nothing to check as a run goes on.
      model_defaults: the fields of the model that an experiment may set: those of PTB-small.
      data_defaults: those of the pipeline; it has none.
      target, higher_is_better: the metric that tells the quality of a run, and its direction.
      evaluates_on: the held-out sets, of which a config names one.
      data_decides: what the data decides about the network, in words; the same in all phases of a run.
      scores: None; the metrics tell all.
      training_examples: None; the windows of an epoch depend on the corpus and on the batch.
      carries_state: the network's states go on from one update to the next.
      metrics_in_training: whether training steps update the metrics; over thousands of words one costs as much as
        the loss, and says the same.
      train, valid, test: `Streams`.

    Args:
      model: dictionary of the model's fields.
      data: dictionary of the pipeline's; it has none.
      data_dir: a prepared corpus.
      use_fake_data: a small made-up text in its place.
    """

    models = checks = ()
    data_defaults = {}
    model_defaults = {
        "window": 20,
        "hidden_units": 200,
        "embedding_units": 200,
        "layers": 2,
        "dropout": 0.0,
        "initial_scale": 0.1,
        "unit_forget_bias": False,
        "unroll": False,
    }
    target = "perplexity"
    higher_is_better = False
    training_examples = scores = None
    evaluates_on = ("test", "valid")
    carries_state = True
    metrics_in_training = False

    def __init__(self, *, model, data, data_dir, use_fake_data):
        self._model = model
        texts = fake.text() if use_fake_data else corpus.load(data_dir)
        self._vocabulary_size = len(texts.vocabulary)
        self.data_decides = f"{self._vocabulary_size:,} words"
        source = "fake text" if use_fake_data else data_dir
        self.train, self.valid, self.test = (
            Streams(getattr(texts, split), self._vocabulary_size, model["window"], f"{source}, {split}")
            for split in ("train", "valid", "test")
        )

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        del model
        return {"window": 4, "hidden_units": 4, "embedding_units": 3}

    def network(self):
        """The Keras model, from tokens and states to logits and states."""
        return model.lstm_language_model(vocabulary_size=self._vocabulary_size, **self._model)

    def loss(self):
        """The loss that is trained, of logits: the mean nats a token."""
        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        """Weighted metrics, each a sum and a count, so that a mask leaves padding out."""
        cross_entropy = tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)
        return [cross_entropy, Perplexity(cross_entropy)]
