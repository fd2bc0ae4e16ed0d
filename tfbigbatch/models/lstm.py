"""LSTM classifiers of images read row by row."""

from __future__ import annotations

import tf_keras

from tfbigbatch.errors import InputError
from tfbigbatch.models import recurrent


def row_classifier(
    *,
    shape: tuple[int, int],
    classes: int,
    brightest: int,
    hidden_units: int,
    projection_units: int = 0,
    dropout: float = 0.0,
    unroll: bool = False,
) -> tf_keras.Model:
    """A classifier that reads an image as a sequence of its rows.

    Args:
      shape: (rows, columns) of the uint8 images.
      classes: number of classes.
      brightest: the pixel value that becomes 1.0.
      hidden_units: units of the LSTM.
      projection_units: units of a linear layer on each row before the LSTM; 0 for none.
      dropout: dropout rate of the LSTM's output.
      unroll: unrolls the LSTM's time steps in the graph: a tenth faster on a CPU, slower to trace; on a GPU it rules
        out cuDNN's kernel.

    Returns:
      tf_keras.Model from uint8 [batch, rows, columns] to float32 logits [batch, classes].

    Raises:
      ValueError: a size or rate is out of range.
    """
    if hidden_units < 1 or projection_units < 0 or not 0.0 <= dropout < 1.0:
        raise InputError(
            f"hidden_units={hidden_units}, projection_units={projection_units}, dropout={dropout}: expected "
            "hidden_units of 1 or more, projection_units of 0 or more, and 0 <= dropout < 1."
        )
    images = tf_keras.Input(shape, dtype="uint8", name="images")
    rows = tf_keras.layers.Rescaling(1.0 / brightest, name="rescaling")(images)
    if projection_units:
        rows = tf_keras.layers.Dense(projection_units, name="projection")(rows)
    last = recurrent.lstm(hidden_units, unroll=unroll, name="lstm")(rows)
    if dropout:
        last = tf_keras.layers.Dropout(dropout, name="dropout")(last)
    # The logits stay float32 under mixed precision: their softmax needs the precision.
    logits = tf_keras.layers.Dense(classes, dtype="float32", name="logits")(last)
    return tf_keras.Model(images, logits, name="row_classifier")
