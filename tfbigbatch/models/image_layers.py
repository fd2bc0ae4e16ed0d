"""Layers that the image classifiers share: normalised input, batch normalisation, logits."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

# ImageNet's red, green and blue channels, in 0..255.
CHANNEL_MEANS = (123.68, 116.779, 103.939)
CHANNEL_DEVIATIONS = (58.393, 57.12, 57.375)


def normalized_input(image_size: int, *, divide: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
    """The input of a network, and its pixels minus ImageNet's channel means.

    Computed on the device, so that a pixel is transferred as one byte.

    Args:
      image_size: pixels of a side.
      divide: whether the pixels are also divided by the channels' standard deviations.

    Returns:
      (uint8, float32), both [batch, image_size, image_size, 3].
    """
    images = tf_keras.Input((image_size, image_size, 3), dtype="uint8", name="images")
    scales = [1.0 / deviation for deviation in CHANNEL_DEVIATIONS] if divide else [1.0] * 3
    offsets = [-mean * scale for mean, scale in zip(CHANNEL_MEANS, scales)]
    # float32 under mixed precision too: the next layer casts the result, so it is rounded once.
    return images, tf_keras.layers.Rescaling(scales, offsets, dtype="float32", name="normalization")(images)


def batch_normalization(
    *, epsilon: float, cross_replica: bool, name: str, zero_gamma: bool = False
) -> tf_keras.layers.Layer:
    """Batch normalisation with momentum 0.9.

    Args:
      epsilon: added to the variance.
      cross_replica: mean and variance over the batch of all replicas, instead of each replica's own.
      name: of the layer; an optimizer's exclusions match it and the weights 'gamma' and 'beta'.
      zero_gamma: initialises the scale with 0 instead of 1.
    """
    return tf_keras.layers.BatchNormalization(
        momentum=0.9,
        epsilon=epsilon,
        gamma_initializer="zeros" if zero_gamma else "ones",
        # Keras has a fused kernel only for the batch of one replica.
        synchronized=cross_replica,
        name=name,
    )


def logits(features: tf.Tensor, classes: int, kernel_initializer: tf_keras.initializers.Initializer) -> tf.Tensor:
    """The last layer, float32 under mixed precision too: its softmax needs the precision."""
    return tf_keras.layers.Dense(classes, kernel_initializer=kernel_initializer, dtype="float32", name="logits")(
        features
    )
