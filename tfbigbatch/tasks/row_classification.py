"""What the row-by-row image classifiers share: the LSTM."""

from tfbigbatch.models import lstm
from tfbigbatch.tasks.array_classification import ArrayClassification


class RowClassification(ArrayClassification):
    """Images read row by row by an LSTM. A subclass names its images and the model's defaults."""

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        del model
        return {"hidden_units": 4, "projection_units": 0}

    def network(self):
        """The Keras model, from uint8 images to logits."""
        images = self.images
        return lstm.row_classifier(
            shape=images.SHAPE, classes=images.CLASSES, brightest=images.BRIGHTEST, **self._model
        )
