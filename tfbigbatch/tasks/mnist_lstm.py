"""MNIST read row by row by an LSTM: 60,000 images to train on, 10,000 to test.

The MNIST-LSTM of You et al. 2019 (arXiv:1901.08256): 128 hidden units, the rows projected to 128.
"""

from tfbigbatch.data import fake, mnist
from tfbigbatch.tasks.row_classification import RowClassification


class MnistLSTM(RowClassification):
    model_defaults = {"hidden_units": 128, "projection_units": 128, "dropout": 0.0}

    def __init__(self, *, model, data_dir, use_fake_data):
        if use_fake_data:
            train, test = (
                fake.images(shape=mnist.SHAPE, classes=mnist.CLASSES, brightest=mnist.BRIGHTEST, examples=n, name=name)
                for name, n in (("MNIST, train", 64), ("MNIST, test", 20))
            )
        else:
            train, test = mnist.load(data_dir)
        super().__init__(mnist, train, test, model)
