"""Layers that the image classifiers share: normalised input, batch and local response normalisation, logits."""

from __future__ import annotations

from typing import Any

import keras

# ImageNet's red, green and blue channels, in 0..255.
CHANNEL_MEANS = (123.68, 116.779, 103.939)
CHANNEL_DEVIATIONS = (58.393, 57.12, 57.375)


def normalized_input(image_size: int, *, divide: bool = True) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """The input of a network, and its pixels minus ImageNet's channel means.

    Computed on the device, so that a pixel is transferred as one byte.

    Args:
      image_size: pixels of a side.
      divide: whether the pixels are also divided by the channels' standard deviations.

    Returns:
      (uint8, float32), both [batch, image_size, image_size, 3].
    """
    images = keras.Input((image_size, image_size, 3), dtype="uint8", name="images")
    scales = [1.0 / deviation for deviation in CHANNEL_DEVIATIONS] if divide else [1.0] * 3
    offsets = [-mean * scale for mean, scale in zip(CHANNEL_MEANS, scales)]
    # float32 under mixed precision too: the next layer casts the result, so it is rounded once.
    return images, keras.layers.Rescaling(scales, offsets, dtype="float32", name="normalization")(images)


@keras.saving.register_keras_serializable("tfbigbatch")
class FusedBatchNormalization(keras.layers.BatchNormalization):
    """Keras' batch normalisation with TensorFlow's fused kernel, which Keras 3 does not use.

    Variables, config and results are those of Keras' layer. The kernel runs in training, on images [batch, height,
    width, channels] of float32, bfloat16 or float16, and computes statistics in float32. Where it cannot, Keras' own
    operations run: on another backend, with `synchronized`, without gamma or beta.
    """

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        if not training or not self._is_fused(inputs, mask):
            return super().call(inputs, training=training, mask=mask)
        import tensorflow as tf

        before = tf.convert_to_tensor(self.moving_variance.value)
        # The kernel moves the averages too: fewer operations to trace and to run.
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=self.gamma.value,
            offset=self.beta.value,
            mean=self.moving_mean.value,
            variance=before,
            epsilon=self.epsilon,
            exponential_avg_factor=1.0 - self.momentum,
            is_training=True,
        )
        # It divides the batch's variance by n - 1, Keras by n.
        one_nth = inputs.shape[-1] / tf.cast(tf.size(inputs, tf.int64), tf.float32)
        self.moving_mean.assign(mean)
        self.moving_variance.assign(variance - one_nth * (variance - self.momentum * before))
        return outputs

    def _is_fused(self, inputs: Any, mask: Any) -> bool:
        plain = self.scale and self.center and not self.renorm and not self.synchronized and mask is None
        images = len(inputs.shape) == 4 and self.axis in (-1, 3) and self.compute_dtype != "float64"
        return bool(keras.backend.backend() == "tensorflow" and self.trainable and plain and images)


@keras.saving.register_keras_serializable("tfbigbatch")
class LocalResponseNormalization(keras.layers.Layer):
    """Local response normalisation across channels (Krizhevsky et al. 2012, section 3.3).

    a / (k + alpha * sum of a^2 over n channels)^beta. (Caffe's has k=1, and divides alpha by n.) From and to [batch,
    height, width, channels] of the compute dtype; computed in float32, the only type with kernels on every device.
    """

    k, n, alpha, beta = 2.0, 5, 1e-4, 0.75

    def call(self, inputs: Any) -> Any:
        if keras.backend.backend() != "tensorflow":
            return self.in_keras(None, inputs)
        import tensorflow as tf

        values = tf.cast(inputs, tf.float32)
        normalized = tf.nn.local_response_normalization(values, self.n // 2, self.k, self.alpha, self.beta)
        return tf.cast(normalized, inputs.dtype)

    def in_keras(self, twin: Any, inputs: Any) -> Any:
        """`call` in Keras' own operations; it has no layers within it, which `twin` is for."""
        values, reach = keras.ops.cast(inputs, "float32"), self.n // 2
        squares = keras.ops.pad(keras.ops.square(values), [(0, 0)] * 3 + [(reach, reach)])
        near = sum(squares[..., first : first + values.shape[-1]] for first in range(self.n))
        return keras.ops.cast(values / (self.k + self.alpha * near) ** self.beta, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def logits(features: keras.KerasTensor, classes: int, kernel_initializer: Any) -> keras.KerasTensor:
    """The last layer, float32 under mixed precision too: its softmax needs the precision."""
    return keras.layers.Dense(classes, kernel_initializer=kernel_initializer, dtype="float32", name="logits")(features)
