"""The convolutional network of TensorFlow's MNIST tutorials: two convolutions, a wide dense layer, dropout."""

from __future__ import annotations

import tf_keras

from tfbigbatch.errors import InputError


def mnist_cnn(
    *,
    shape: tuple[int, int],
    classes: int,
    brightest: int,
    filters: int = 32,
    fc_units: int = 1024,
    dropout: float = 0.4,
) -> tf_keras.Model:
    """Two convolutions of 5x5, each pooled by 2, and two dense layers. 3,274,634 parameters for MNIST.

    Args:
      shape: (rows, columns) of the uint8 images, each 4 or more.
      classes: number of classes.
      brightest: the pixel value that becomes 1.0.
      filters: of the first convolution; the second has twice as many.
      fc_units: units of the first dense layer.
      dropout: fraction of these units that are dropped in training.

    Returns:
      tf_keras.Model from uint8 [batch, rows, columns] to float32 logits [batch, classes].

    Raises:
      ValueError: a size is out of its range.
    """
    if min(shape) < 4 or filters < 1 or fc_units < 1 or not 0.0 <= dropout < 1.0:
        raise InputError(
            f"shape={shape}, filters={filters}, fc_units={fc_units}, dropout={dropout}: expected images of 4 x 4 or "
            "more, filters and fc_units of 1 or more, and dropout in [0, 1)."
        )
    images = tf_keras.Input(shape, dtype="uint8", name="images")
    x = tf_keras.layers.Rescaling(1.0 / brightest, name="rescaling")(images)
    x = tf_keras.layers.Reshape((*shape, 1), name="channel")(x)
    for number in (1, 2):
        x = tf_keras.layers.Conv2D(number * filters, 5, padding="same", activation="relu", name=f"conv{number}")(x)
        x = tf_keras.layers.MaxPooling2D(name=f"pool{number}")(x)
    x = tf_keras.layers.Flatten(name="flatten")(x)
    x = tf_keras.layers.Dense(fc_units, activation="relu", name="fc")(x)
    x = tf_keras.layers.Dropout(dropout, name="dropout")(x)
    # The logits stay float32 under mixed precision: their softmax needs the precision.
    logits = tf_keras.layers.Dense(classes, dtype="float32", name="logits")(x)
    return tf_keras.Model(images, logits, name="mnist_cnn")
