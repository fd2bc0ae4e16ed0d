"""LSTM classifiers of images read row by row."""

import tf_keras


def row_classifier(*, shape, classes, brightest, hidden_units, projection_units=0, dropout=0.0):
    """A classifier that reads an image as a sequence of its rows.

    Args:
      shape: (rows, columns) of the uint8 images.
      classes: number of classes.
      brightest: the pixel value that becomes 1.0.
      hidden_units: units of the LSTM.
      projection_units: units of a linear layer on each row before the LSTM; 0 for none.
      dropout: share of the LSTM's output dropped in training.

    Returns:
      tf_keras.Model from uint8 [batch, rows, columns] to float32 logits [batch, classes].
    """
    images = tf_keras.Input(shape, dtype="uint8", name="images")
    rows = tf_keras.layers.Rescaling(1.0 / brightest, name="rescaling")(images)
    if projection_units:
        rows = tf_keras.layers.Dense(projection_units, name="projection")(rows)
    last = tf_keras.layers.LSTM(hidden_units, name="lstm")(rows)
    if dropout:
        last = tf_keras.layers.Dropout(dropout, name="dropout")(last)
    # The logits stay float32 under mixed precision: their softmax needs the digits.
    logits = tf_keras.layers.Dense(classes, dtype="float32", name="logits")(last)
    return tf_keras.Model(images, logits, name="row_classifier")
