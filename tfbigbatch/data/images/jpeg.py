"""Crops of JPEGs at a fixed size: random for training, central for evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import missing_extra

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
    return tf.cond(_flips(seed), lambda: tf.reverse(image, [1]), lambda: image)


def random_crops(
    encoded: tf.Tensor, seeds: tf.Tensor, *, image_size: int, min_area: float = 0.08, reduced_decoding: bool = False
) -> tf.Tensor:
    """The windows and flips of `random_crop` of several JPEGs, resized by OpenCV: its bilinear resize of uint8.

    It rounds otherwise than TensorFlow's: by up to one or two of 255. It is called through Python, on the host that
    the pipeline is built on, once for all images: while it resizes it holds no lock of Python's.

    Args:
      encoded: string [n], n known.
      seeds: int64 [n, 2].
      image_size, min_area, reduced_decoding: as of `random_crop`.

    Returns:
      uint8 [n, image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: as `random_crop`.
    """
    windows, flips = [], []
    for one, seed in zip(tf.unstack(encoded), tf.unstack(seeds), strict=True):
        begin, size = random_window(one, seed, min_area)
        windows.append(_decoded_window(one, begin, size, image_size, reduced_decoding))
        flips.append(_flips(seed))
    return _resized_by_opencv(windows, tf.stack(flips), image_size)


def _flips(seed: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_uniform([], seed + 1, maxval=2, dtype=tf.int32) == 1


def centre_crop(encoded: tf.Tensor, *, image_size: int, central_share: float = 0.875) -> tf.Tensor:
    """The centre of the image: a square with `central_share` times its shorter side.

    Up to rounding, the same pixels as resizing the shorter side to image_size / central_share (224 / 0.875 = 256)
    and cropping the centre.

    Returns:
      uint8 [image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: `encoded` is not a JPEG, or a damaged one.
    """
    return resized_window(encoded, *_central_window(encoded, central_share), image_size)


def centre_crops(encoded: tf.Tensor, *, image_size: int, central_share: float = 0.875) -> tf.Tensor:
    """The windows of `centre_crop` of several JPEGs, resized by OpenCV, as `random_crops` does.

    Args:
      encoded: string [n], n known.
      image_size, central_share: as of `centre_crop`.

    Returns:
      uint8 [n, image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: as `centre_crop`.
    """
    windows = [
        _decoded_window(one, *_central_window(one, central_share), image_size, False) for one in tf.unstack(encoded)
    ]
    return _resized_by_opencv(windows, tf.zeros([len(windows)], tf.bool), image_size)


def _central_window(encoded: tf.Tensor, central_share: float) -> tuple[tf.Tensor, tf.Tensor]:
    sides = tf.io.extract_jpeg_shape(encoded)[:2]
    square = tf.cast(tf.round(tf.cast(tf.reduce_min(sides), tf.float32) * central_share), tf.int32)
    square = tf.fill([2], tf.maximum(square, 1))
    return (sides - square) // 2, square


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
    image = _decoded_window(encoded, begin, size, image_size, reduced_decoding)
    # tf.image.resize is this op behind a dozen small ones, which take as long as a tenth of the decoding. From
    # uint8 the result is that from float32, without writing and reading four times the bytes.
    image = tf.raw_ops.ResizeBilinear(images=image[None], size=[image_size, image_size], half_pixel_centers=True)[0]
    # To the nearest: the cast cuts off.
    return tf.cast(image + 0.5, tf.uint8)


def _decoded_window(
    encoded: tf.Tensor, begin: tf.Tensor, size: tf.Tensor, image_size: int, reduced_decoding: bool
) -> tf.Tensor:
    """uint8 [height, width, 3]: the window at its own size, or the reduced one."""

    def decoded(ratio: int) -> tf.Tensor:
        # The window is in pixels of the reduced image.
        window = tf.concat([begin // ratio, size // ratio], axis=0)
        return tf.image.decode_and_crop_jpeg(encoded, window, channels=3, ratio=ratio, dct_method=_DCT_METHOD)

    if not reduced_decoding:
        return decoded(1)
    times = tf.reduce_min(size) // image_size
    halvings = tf.reduce_sum(tf.cast(times >= [2, 4, 8], tf.int32))
    return tf.switch_case(halvings, [lambda ratio=ratio: decoded(ratio) for ratio in (1, 2, 4, 8)])


def require_opencv() -> None:
    """Raises where OpenCV is not installed.

    Raises:
      MissingExtra: it is not.
    """
    try:
        import cv2  # noqa: F401
    except ImportError:
        raise missing_extra("opencv-python-headless", "models") from None


def _resized_by_opencv(images: Sequence[tf.Tensor], flips: tf.Tensor, image_size: int) -> tf.Tensor:
    """uint8 [n, image_size, image_size, 3] of images of any sizes, mirrored where `flips`, bool [n], says so."""

    def resize(flips: np.ndarray, *images: np.ndarray) -> np.ndarray:
        import cv2

        made = np.empty([len(images), image_size, image_size, 3], np.uint8)
        for one, image, flip in zip(made, images, flips, strict=True):
            cv2.resize(image, (image_size, image_size), dst=one, interpolation=cv2.INTER_LINEAR)
            if flip:
                cv2.flip(one, 1, dst=one)
        return made

    # A call for all: one for each would take longer than some resizes.
    made = tf.numpy_function(resize, [flips, *images], tf.uint8, stateful=False)
    return tf.ensure_shape(made, [len(images), image_size, image_size, 3])
