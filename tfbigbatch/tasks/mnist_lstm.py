"""MNIST read row by row by an LSTM: 60,000 images to train on, 10,000 to test.

The MNIST-LSTM of You et al. 2019 (arXiv:1901.08256): 128 hidden units, the rows projected to 128.
"""

from tfbigbatch.data.in_memory import mnist
from tfbigbatch.tasks.row_classification import RowClassification


class MnistLSTM(RowClassification):
    images = mnist
    model_defaults = {"hidden_units": 128, "projection_units": 128, "dropout": 0.0, "unroll": False}
    training_examples = 60_000
