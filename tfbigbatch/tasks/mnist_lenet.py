"""MNIST by LeNet-5: 60,000 images to train on, 10,000 to test.

The model on which the Adasum paper (Maleki et al. 2020, arXiv:2006.02924) shows its rule from 4 to 32 workers.
"""

from tfbigbatch.data.in_memory import mnist
from tfbigbatch.models import lenet
from tfbigbatch.tasks.array_classification import ArrayClassification


class MnistLeNet(ArrayClassification):
    images = mnist
    model_defaults = {"filters": 6, "fc_units": 120}
    training_examples = 60_000

    @staticmethod
    def smoke_model(model):
        """The fields that a smoke run sets, for a tiny model of the same structure."""
        del model
        return {"filters": 3, "fc_units": 10}

    def network(self):
        """The Keras model, from uint8 images to logits."""
        images = self.images
        return lenet.lenet(shape=images.SHAPE, classes=images.CLASSES, brightest=images.BRIGHTEST, **self._model)
