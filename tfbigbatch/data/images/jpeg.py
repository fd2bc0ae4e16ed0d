"""Crops of JPEGs at a fixed size: random for training, central for evaluation."""

from __future__ import annotations

import tensorflow as tf

# The inverse DCT of every published ImageNet pipeline.
_DCT_METHOD = "INTEGER_FAST"


def random_crop(
    encoded: tf.Tensor, seed: tf.Tensor, *, image_size: int, min_area: float = 0.08, reduced_decoding: bool = False
) -> tf.Tensor:
    """A crop of random area and shape, flipped at random (Szegedy et al. 2015, arXiv:1409.4842, section 6).

    Args:
      encoded: string scalar, a JPEG.
      seed: int64 [2]; the crop and the flip are a pure function of it.
      image_size: height and width of the result, in pixels.
      min_area: the smallest fraction of the image's area that is kept; the largest is 1. The crop's width is 3/4 to
        4/3 of its height.
      reduced_decoding: where the crop is at least twice `image_size` in both sides, decode it at a half, a
        quarter or an eighth of its size, by its low frequencies alone.

    Returns:
      uint8 [image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: `encoded` is not a JPEG, or a damaged one.
    """
    begin, size = random_window(encoded, seed, min_area)
    # Flipped after it is resized, when it is small.
    image = resized_window(encoded, begin, size, image_size, reduced_decoding=reduced_decoding)
    flip = tf.random.stateless_uniform([], seed + 1, maxval=2, dtype=tf.int32) == 1
    return tf.cond(flip, lambda: tf.reverse(image, [1]), lambda: image)


def centre_crop(encoded: tf.Tensor, *, image_size: int, central_share: float = 0.875) -> tf.Tensor:
    """The centre of the image: a square with `central_share` times its shorter side.

    Up to rounding, the same pixels as resizing the shorter side to image_size / central_share (224 / 0.875 = 256)
    and cropping the centre.

    Returns:
      uint8 [image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: `encoded` is not a JPEG, or a damaged one.
    """
    sides = tf.io.extract_jpeg_shape(encoded)[:2]
    square = tf.cast(tf.round(tf.cast(tf.reduce_min(sides), tf.float32) * central_share), tf.int32)
    square = tf.fill([2], tf.maximum(square, 1))
    return resized_window(encoded, (sides - square) // 2, square, image_size)


def random_window(encoded: tf.Tensor, seed: tf.Tensor, min_area: float) -> tuple[tf.Tensor, tf.Tensor]:
    """The window of `random_crop`: (begin, size), each int32 [2], rows and columns of the image."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        bounding_boxes=tf.zeros([1, 0, 4]),
        seed=seed,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(min_area, 1.0),
        max_attempts=100,
        min_object_covered=0.1,
        use_image_if_no_bounding_boxes=True,
    )
    return begin[:2], size[:2]


def resized_window(
    encoded: tf.Tensor, begin: tf.Tensor, size: tf.Tensor, image_size: int, *, reduced_decoding: bool = False
) -> tf.Tensor:
    """uint8 [image_size, image_size, 3]: a window of a JPEG, decoded alone and resized bilinearly."""

    def decoded(ratio: int) -> tf.Tensor:
        # The window is in pixels of the reduced image.
        window = tf.concat([begin // ratio, size // ratio], axis=0)
        return tf.image.decode_and_crop_jpeg(encoded, window, channels=3, ratio=ratio, dct_method=_DCT_METHOD)

    if reduced_decoding:
        times = tf.reduce_min(size) // image_size
        halvings = tf.reduce_sum(tf.cast(times >= [2, 4, 8], tf.int32))
        image = tf.switch_case(halvings, [lambda ratio=ratio: decoded(ratio) for ratio in (1, 2, 4, 8)])
    else:
        image = decoded(1)
    # tf.image.resize is this op behind a dozen small ones, which take as long as a tenth of the decoding. From
    # uint8 the result is that from float32, without writing and reading four times the bytes.
    image = tf.raw_ops.ResizeBilinear(images=image[None], size=[image_size, image_size], half_pixel_centers=True)[0]
    # To the nearest: the cast cuts off.
    return tf.cast(image + 0.5, tf.uint8)
