"""One JPEG to one image of a fixed size: a random crop for training, the centre for evaluation."""

import tensorflow as tf

# The IDCT that every published ImageNet pipeline takes.
_DCT_METHOD = "INTEGER_FAST"


def random_crop(encoded, seed, *, image_size, min_area=0.08, reduced_decoding=False):
    """A crop of random area and shape, flipped at random (Szegedy et al. 2015, arXiv:1409.4842, section 6).

    Args:
      encoded: string scalar, a JPEG.
      seed: int64 [2]; the crop and the flip are a pure function of it.
      image_size: pixels of a side of the result.
      min_area: the smallest share of the picture that is kept; the largest is 1. The crop's width is 3/4 to
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


def centre_crop(encoded, *, image_size, central_share=0.875):
    """The centre of the picture: a square of `central_share` of its shorter side.

    The same pixels, but for rounding, as to resize the shorter side to image_size / central_share (224 / 0.875 = 256)
    and cut the centre out.

    Returns:
      uint8 [image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: `encoded` is not a JPEG, or a damaged one.
    """
    sides = tf.io.extract_jpeg_shape(encoded)[:2]
    square = tf.cast(tf.round(tf.cast(tf.reduce_min(sides), tf.float32) * central_share), tf.int32)
    square = tf.fill([2], tf.maximum(square, 1))
    return resized_window(encoded, (sides - square) // 2, square, image_size)


def random_window(encoded, seed, min_area):
    """What `random_crop` keeps: (begin, size), each int32 [2], rows and columns of the picture."""
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


def resized_window(encoded, begin, size, image_size, *, reduced_decoding=False):
    """uint8 [image_size, image_size, 3]: a window of a JPEG, all that is decoded of it, resized bilinearly."""

    def decoded(ratio):
        # The window is in pixels of the reduced picture.
        window = tf.concat([begin // ratio, size // ratio], axis=0)
        return tf.image.decode_and_crop_jpeg(encoded, window, channels=3, ratio=ratio, dct_method=_DCT_METHOD)

    if reduced_decoding:
        times = tf.reduce_min(size) // image_size
        halvings = tf.reduce_sum(tf.cast(times >= [2, 4, 8], tf.int32))
        image = tf.switch_case(halvings, [lambda ratio=ratio: decoded(ratio) for ratio in (1, 2, 4, 8)])
    else:
        image = decoded(1)
    # tf.image.resize is this op behind a dozen small ones, which take as long as a tenth of the decoding.
    image = tf.raw_ops.ResizeBilinear(
        images=tf.cast(image, tf.float32)[None], size=[image_size, image_size], half_pixel_centers=True
    )[0]
    # To the nearest: the cast cuts off.
    return tf.cast(image + 0.5, tf.uint8)
