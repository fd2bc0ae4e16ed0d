"""What the image classifiers share: the input and its normalisation, batch normalisation, the logits."""

import tf_keras

from tfbigbatch.errors import InputError

# ImageNet's, of the channels red, green and blue in 0..255.
CHANNEL_MEANS = (123.68, 116.779, 103.939)
CHANNEL_DEVIATIONS = (58.393, 57.12, 57.375)


def check_sizes(**sizes):
    """Raises ValueError for a size that is no whole number of 1 or more."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"{name}={size!r}: expected a whole number of 1 or more.")


def one_of(name, given, known):
    """What `known`, a dictionary, holds under `given`.

    Raises:
      ValueError: it holds nothing there.
    """
    if given not in known:
        raise InputError(f"{name}={given!r}: expected one of {', '.join(map(repr, known))}.")
    return known[given]


def normalized_input(image_size, *, divide=True):
    """The input of a network, and its pixels less ImageNet's channel means.

    The device does the arithmetic, so that a pixel travels to it as one byte.

    Args:
      image_size: pixels on a side.
      divide: whether the pixels are divided by the channels' standard deviations too.

    Returns:
      (uint8, float32), both [batch, image_size, image_size, 3].
    """
    images = tf_keras.Input((image_size, image_size, 3), dtype="uint8", name="images")
    scales = [1.0 / deviation for deviation in CHANNEL_DEVIATIONS] if divide else [1.0] * 3
    offsets = [-mean * scale for mean, scale in zip(CHANNEL_MEANS, scales)]
    # In float32 under mixed precision too: what follows casts the result, and so rounds once.
    return images, tf_keras.layers.Rescaling(scales, offsets, dtype="float32", name="normalization")(images)


def batch_normalization(*, epsilon, cross_replica, name, zero_gamma=False):
    """A layer of batch normalisation whose moving averages keep 0.9 of what they were at each step.

    Args:
      epsilon: added to the variance.
      cross_replica: mean and variance are of the batch of all replicas, not of each one's.
      name: of the layer; an optimizer's exclusions match it and the weights 'gamma' and 'beta'.
      zero_gamma: the scale begins at 0, not at 1.
    """
    return tf_keras.layers.BatchNormalization(
        momentum=0.9,
        epsilon=epsilon,
        gamma_initializer="zeros" if zero_gamma else "ones",
        # Keras has a fused kernel only for the batch of one replica.
        synchronized=cross_replica,
        name=name,
    )


def logits(features, classes, kernel_initializer):
    """The last layer, float32 under mixed precision too: the softmax of its result needs the digits."""
    return tf_keras.layers.Dense(classes, kernel_initializer=kernel_initializer, dtype="float32", name="logits")(
        features
    )
