"""scikit-learn's digits read row by row by an LSTM: 1,437 images to train on, 360 to test."""

from tfbigbatch.data import digits, fake
from tfbigbatch.tasks.row_classification import RowClassification


class DigitsLSTM(RowClassification):
    model_defaults = {"hidden_units": 64, "projection_units": 0, "dropout": 0.0}

    def __init__(self, *, model, data_dir, use_fake_data):
        if use_fake_data:
            train, test = (
                fake.images(shape=digits.SHAPE, classes=digits.CLASSES, brightest=digits.BRIGHTEST, examples=n, name=name)
                for name, n in (("digits, train", 64), ("digits, test", 20))
            )
        else:
            train, test = digits.load()
        super().__init__(digits, train, test, model)
