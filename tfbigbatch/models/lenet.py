"""LeNet-5 (LeCun et al. 1998) in its modern form: ReLU, max pooling, and softmax of dense logits."""

from __future__ import annotations

import tf_keras

from tfbigbatch.errors import InputError


def lenet(
    *, shape: tuple[int, int], classes: int, brightest: int, filters: int = 6, fc_units: int = 120
) -> tf_keras.Model:
    """LeNet-5: two convolutions of 5x5, each pooled by 2, and three dense layers. 61,706 parameters for MNIST.

    Args:
      shape: (rows, columns) of the uint8 images, each 12 or more.
      classes: number of classes.
      brightest: the pixel value that becomes 1.0.
      filters: of the first convolution, a multiple of 3; the second has 8/3 times as many (the published 6 and 16).
      fc_units: units of the first dense layer, a multiple of 10; the second has 7/10 of them (120 and 84).

    Returns:
      tf_keras.Model from uint8 [batch, rows, columns] to float32 logits [batch, classes].

    Raises:
      ValueError: a size is out of its range.
    """
    if min(shape) < 12 or filters < 3 or filters % 3 or fc_units < 10 or fc_units % 10:
        raise InputError(
            f"shape={shape}, filters={filters}, fc_units={fc_units}: expected images of 12 x 12 or more, filters a "
            "multiple of 3, as 6, and fc_units one of 10, as 120."
        )
    images = tf_keras.Input(shape, dtype="uint8", name="images")
    x = tf_keras.layers.Rescaling(1.0 / brightest, name="rescaling")(images)
    x = tf_keras.layers.Reshape((*shape, 1), name="channel")(x)
    # The first pads by two: LeNet-5 read MNIST's 28 x 28 within 32 x 32.
    x = tf_keras.layers.Conv2D(filters, 5, padding="same", activation="relu", name="conv1")(x)
    x = tf_keras.layers.MaxPooling2D(name="pool1")(x)
    x = tf_keras.layers.Conv2D(filters * 8 // 3, 5, activation="relu", name="conv2")(x)
    x = tf_keras.layers.MaxPooling2D(name="pool2")(x)
    x = tf_keras.layers.Flatten(name="flatten")(x)
    x = tf_keras.layers.Dense(fc_units, activation="relu", name="fc1")(x)
    x = tf_keras.layers.Dense(fc_units * 7 // 10, activation="relu", name="fc2")(x)
    # The logits stay float32 under mixed precision: their softmax needs the precision.
    logits = tf_keras.layers.Dense(classes, dtype="float32", name="logits")(x)
    return tf_keras.Model(images, logits, name="lenet")
