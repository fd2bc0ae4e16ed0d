"""AlexNet, with local response normalisation as published or with batch normalisation (AlexNet-BN)."""

from __future__ import annotations

import math
import typing
from typing import Any

import keras

from tfbigbatch.errors import InputError
from tfbigbatch.models import image_layers
from tfbigbatch.models.checks import check_sizes, one_of

# Filter size and stride of the first convolution, and its total padding; None pads until the filters fit the image.
STEMS = {"11x11_stride4": (11, 4, None), "5x5_stride2": (5, 2, 4), "5x5": (5, 1, 4)}
NORMS = {"local_response": "as published", "batch": "AlexNet-BN"}


class _Published(typing.NamedTuple):
    """A convolution of the published network."""

    filters: int
    size: int
    grouped: bool
    pooled: bool
    # Initial bias.
    bias: float
    # Inputs of one filter.
    inputs: int


_CONVOLUTIONS = (
    _Published(96, 11, False, True, 0.0, 11 * 11 * 3),
    _Published(256, 5, True, True, 0.1, 5 * 5 * 48),
    _Published(384, 3, False, False, 0.0, 3 * 3 * 256),
    _Published(384, 3, True, False, 0.1, 3 * 3 * 192),
    _Published(256, 3, True, True, 0.1, 3 * 3 * 192),
)


def alexnet(
    *,
    image_size: int,
    classes: int,
    norm: str = "local_response",
    stem: str = "11x11_stride4",
    width: int = 96,
    fc_units: int = 4096,
    groups: int = 2,
    dropout: float = 0.5,
    cross_replica_norm: bool = False,
    name: str = "alexnet",
) -> keras.Model:
    """AlexNet (Krizhevsky et al. 2012) as Caffe's single-tower model, or AlexNet-BN.

    Weights and biases are initialised as in Caffe: normal with standard deviation 0.01 (0.005 in fc6 and fc7), and
    constants 0 and 0.1. At other widths the standard deviations keep each layer's gain in the published network. The
    pixels are not divided by their standard deviations: the constants of local response normalisation are for 0..255,
    and change values of about 1 very little.

    AlexNet-BN (You et al. 2017, arXiv:1708.03888) uses batch normalisation instead. As in the model that an author
    published (borisgin/nvcaffe-0.16, models/alexnet_bn/train_val.prototxt), it follows each of the five convolutions,
    not only the first two, and these have no biases; momentum 0.9, epsilon 1e-4, and dropout as published. (The
    solvers beside it for batches of 8K and more use another file, train_val2, which normalises the inputs of conv2 to
    conv5, without gamma and beta.) Its pixels are divided by their standard deviations.

    Parameters for 1,000 classes: 60,965,224 as published, 62,378,344 with groups=1, 60,966,600 for AlexNet-BN.

    Args:
      image_size: pixels of a side.
      classes: number of classes.
      norm: 'local_response' or 'batch'.
      stem: the first convolution. '11x11_stride4' for ImageNet; '5x5_stride2' and '5x5' for images of
        about 64 and 32 pixels. The three max poolings of stride 2 stay.
      width: filters of the first convolution; the others are scaled in proportion.
      fc_units: units of each of the two dense layers before the logits.
      groups: of filters in convolutions 2, 4 and 5: the published two, or 1; on a CPU two take 4 to 10 times as long.
      dropout: dropout rate of fc6's and fc7's outputs.
      cross_replica_norm: batch normalisation over the batch of all replicas.
      name: of the model.

    Returns:
      keras.Model from uint8 [batch, image_size, image_size, 3] to float32 logits [batch, classes].

    Raises:
      ValueError: a size is out of range, or the image is too small for the layers.
    """
    check_sizes(image_size=image_size, classes=classes, width=width, fc_units=fc_units, groups=groups)
    one_of("norm", norm, NORMS)
    if cross_replica_norm and norm != "batch":
        raise InputError(f"cross_replica_norm=True, norm={norm!r}: expected norm='batch'; there is nothing to share.")
    pixels, x = image_layers.normalized_input(image_size, divide=norm == "batch")
    x = _convolutions(x, stem, width, groups, norm, cross_replica_norm)
    x = _dense(keras.layers.Flatten(name="flatten")(x), fc_units, dropout)
    logits = image_layers.logits(x, classes, _normal(0.01, 4096, fc_units))
    return keras.Model(pixels, logits, name=name)


def _convolutions(x: Any, stem: str, width: int, groups: int, norm: str, cross_replica_norm: bool) -> Any:
    layers = keras.layers
    for number, published in enumerate(_CONVOLUTIONS, start=1):
        size, stride, of_groups = published.size, 1, groups if published.grouped else 1
        if number == 1:
            size, stride, padding = one_of("stem", stem, STEMS)
            padding = (size - x.shape[1]) % stride if padding is None else padding
            x = layers.ZeroPadding2D(((padding // 2, padding - padding // 2),) * 2, name="conv1_pad")(x)
        x = layers.Conv2D(
            published.filters * width // _CONVOLUTIONS[0].filters,
            size,
            stride,
            padding="valid" if number == 1 else "same",
            groups=of_groups,
            use_bias=norm != "batch",
            kernel_initializer=_normal(0.01, published.inputs, size * size * x.shape[-1] // of_groups),
            bias_initializer=keras.initializers.Constant(published.bias),
            name=f"conv{number}",
        )(x)
        if norm == "batch":
            x = image_layers.FusedBatchNormalization(
                momentum=0.9, epsilon=1e-4, synchronized=cross_replica_norm, name=f"bn{number}"
            )(x)
        x = layers.ReLU(name=f"relu{number}")(x)
        if norm == "local_response" and number <= 2:
            x = image_layers.LocalResponseNormalization(name=f"lrn{number}")(x)
        if published.pooled:
            x = layers.MaxPooling2D(3, 2, name=f"pool{number}")(x)
    return x


def _normal(deviation: float, published_inputs: int, inputs: int) -> keras.initializers.Initializer:
    """Normal initialiser with the published gain: `deviation` for `published_inputs`, scaled to `inputs`."""
    return keras.initializers.RandomNormal(stddev=deviation * math.sqrt(published_inputs / inputs))


def _dense(x: keras.KerasTensor, fc_units: int, dropout: float) -> keras.KerasTensor:
    for layer, inputs in (("fc6", 6 * 6 * 256), ("fc7", 4096)):
        kernel, bias = _normal(0.005, inputs, x.shape[-1]), keras.initializers.Constant(0.1)
        x = keras.layers.Dense(fc_units, "relu", kernel_initializer=kernel, bias_initializer=bias, name=layer)(x)
        x = keras.layers.Dropout(dropout, name=f"dropout_{layer}")(x)
    return x
