"""What the row-by-row image classifiers share: the LSTM, its loss and its metrics."""

import tf_keras

from tfbigbatch.models import lstm


class RowClassification:
    """A task: model, data, loss, metrics and target. Subclasses name their images.

    Attributes:
      train, test: `Arrays`.
      target: the metric that tells the quality of a run.
    """

    target = "accuracy"
    smoke_model = {"hidden_units": 4, "projection_units": 0}

    def __init__(self, images, train, test, model):
        self._images = images
        self._model = model
        self.train = train
        self.test = test

    def network(self):
        """The Keras model, from uint8 images to logits."""
        images = self._images
        return lstm.row_classifier(
            shape=images.SHAPE, classes=images.CLASSES, brightest=images.BRIGHTEST, **self._model
        )

    def loss(self):
        return tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        """Weighted metrics, each a sum and a count, so that a mask leaves padding out."""
        return [
            tf_keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True),
            tf_keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        ]
