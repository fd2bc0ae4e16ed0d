"""Small classifiers of grey images: an LSTM of their rows, LeNet-5, and the CNN of TensorFlow's MNIST tutorials.

All map uint8 images [batch, rows, columns] to float32 logits [batch, classes], and take `shape`, (rows, columns);
`classes`; and `brightest`, the pixel value that becomes 1.0. They raise ValueError for a size out of its range.
"""

from __future__ import annotations

import keras

from tfbigbatch.models.checks import check_sizes
from tfbigbatch.models.lstm import lstm

layers = keras.layers


def row_classifier(
    *,
    shape: tuple[int, int],
    classes: int,
    brightest: int,
    hidden_units: int,
    projection_units: int = 0,
    dropout: float = 0.0,
    unroll: bool = False,
) -> keras.Model:
    """A classifier that reads an image as a sequence of its rows.

    Args:
      shape, classes, brightest: of the images; see the module.
      hidden_units: units of the LSTM.
      projection_units: units of a linear layer on each row before the LSTM; 0 for none.
      dropout: dropout rate of the LSTM's output.
      unroll: unrolls the LSTM's time steps in the graph: a tenth faster on a CPU, slower to trace; on a GPU it rules
        out cuDNN's kernel.
    """
    check_sizes(hidden_units=hidden_units, **({"projection_units": projection_units} if projection_units else {}))
    images, rows = _scaled(shape, brightest)
    if projection_units:
        rows = layers.Dense(projection_units, name="projection")(rows)
    last = lstm(hidden_units, unroll=unroll, name="lstm")(rows)
    if dropout:
        last = layers.Dropout(dropout, name="dropout")(last)
    return _classifier(images, last, classes, "row_classifier")


def lenet(
    *, shape: tuple[int, int], classes: int, brightest: int, filters: int = 6, fc_units: int = 120
) -> keras.Model:
    """LeNet-5 (LeCun et al. 1998) in its modern form: ReLU, max pooling, and softmax of dense logits.

    Two convolutions of 5x5, each pooled by 2, and three dense layers. 61,706 parameters for MNIST.

    Args:
      shape, classes, brightest: of the images, of 12 x 12 or more; see the module.
      filters: of the first convolution; the second has 8/3 times as many (the published 6 and 16).
      fc_units: units of the first dense layer; the second has 7/10 of them (120 and 84).
    """
    images, x = _scaled(shape, brightest)
    x = layers.Reshape((*shape, 1), name="channel")(x)
    # The first pads by two: LeNet-5 read MNIST's 28 x 28 within 32 x 32.
    for number, count, padding in ((1, filters, "same"), (2, filters * 8 // 3, "valid")):
        x = layers.Conv2D(count, 5, padding=padding, activation="relu", name=f"conv{number}")(x)
        x = layers.MaxPooling2D(name=f"pool{number}")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(fc_units, activation="relu", name="fc1")(x)
    x = layers.Dense(fc_units * 7 // 10, activation="relu", name="fc2")(x)
    return _classifier(images, x, classes, "lenet")


def mnist_cnn(
    *,
    shape: tuple[int, int],
    classes: int,
    brightest: int,
    filters: int = 32,
    fc_units: int = 1024,
    dropout: float = 0.4,
) -> keras.Model:
    """Two convolutions of 5x5, each pooled by 2, and two dense layers. 3,274,634 parameters for MNIST.

    Args:
      shape, classes, brightest: of the images, of 4 x 4 or more; see the module.
      filters: of the first convolution; the second has twice as many.
      fc_units: units of the first dense layer.
      dropout: fraction of these units that are dropped in training.
    """
    check_sizes(filters=filters, fc_units=fc_units)
    images, x = _scaled(shape, brightest)
    x = layers.Reshape((*shape, 1), name="channel")(x)
    for number in (1, 2):
        x = layers.Conv2D(number * filters, 5, padding="same", activation="relu", name=f"conv{number}")(x)
        x = layers.MaxPooling2D(name=f"pool{number}")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(fc_units, activation="relu", name="fc")(x)
    x = layers.Dropout(dropout, name="dropout")(x)
    return _classifier(images, x, classes, "mnist_cnn")


def _scaled(shape: tuple[int, int], brightest: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    images = keras.Input(shape, dtype="uint8", name="images")
    return images, layers.Rescaling(1.0 / brightest, name="rescaling")(images)


def _classifier(images: keras.KerasTensor, features: keras.KerasTensor, classes: int, name: str) -> keras.Model:
    # The logits stay float32 under mixed precision: their softmax needs the precision.
    return keras.Model(images, layers.Dense(classes, dtype="float32", name="logits")(features), name=name)
