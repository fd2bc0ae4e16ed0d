"""scikit-learn's digits read row by row by an LSTM: 1,437 images to train on, 360 to test."""

from tfbigbatch.data.in_memory import digits
from tfbigbatch.tasks.row_classification import RowClassification


class DigitsLSTM(RowClassification):
    images = digits
    model_defaults = {"hidden_units": 64, "projection_units": 0, "dropout": 0.0, "unroll": False}
    training_examples = 1_437
