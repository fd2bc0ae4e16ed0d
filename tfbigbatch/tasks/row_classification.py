"""What the row-by-row image classifiers share: the LSTM, its data, its loss and its metrics."""

import tf_keras

from tfbigbatch.data import fake
from tfbigbatch.models import lstm


class RowClassification:
    """A task: model, data, loss, metrics and target. A subclass names its images and model.

    Attributes:
      images: the module of the data set: SHAPE, CLASSES, BRIGHTEST and load(data_dir).
      model_defaults: the fields of the model that an experiment may set.
      smoke_model: those that a smoke run sets, for a tiny model of the same structure.
      target, higher_is_better: the metric that tells the quality of a run, and its direction.
      evaluates_on: the held-out sets, of which a config names one.
      carries_state: no state goes on from one update to the next.
      training_examples: examples in an epoch, known without the data.
      train, test: `Arrays`.

    Args:
      model: dictionary of the model's fields.
      data_dir: where the data lies, or None.
      use_fake_data: made-up images of the right shape in place of the data.
    """

    images = None
    model_defaults = {}
    smoke_model = {"hidden_units": 4, "projection_units": 0}
    target = "accuracy"
    higher_is_better = True
    evaluates_on = ("test",)
    carries_state = False
    training_examples = None

    def __init__(self, *, model, data_dir, use_fake_data):
        self._model = model
        self.train, self.test = fake.train_and_test(self.images) if use_fake_data else self.images.load(data_dir)

    def network(self):
        """The Keras model, from uint8 images to logits."""
        images = self.images
        return lstm.row_classifier(
            shape=images.SHAPE, classes=images.CLASSES, brightest=images.BRIGHTEST, **self._model
        )

    def loss(self):
        """The loss that is trained, of logits."""
        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        """Weighted metrics, each a sum and a count, so that a mask leaves padding out."""
        return [
            tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True),
            tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        ]
