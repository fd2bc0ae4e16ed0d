"""Crops of JPEGs at a fixed size: random for training, central for evaluation."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError, missing_extra, nearest

RESIZERS = ("tensorflow", "opencv")
# The inverse DCT of every published ImageNet pipeline.
_DCT_METHOD = "INTEGER_FAST"


def check_resizer(resizer: str) -> None:
    """Checks a name of RESIZERS.

    Raises:
      ValueError: there is none of that name, or its package is not installed.
    """
    if resizer not in RESIZERS:
        raise InputError(f"resizer={resizer!r}: {nearest(resizer, RESIZERS)}")
    if resizer == "opencv" and importlib.util.find_spec("cv2") is None:
        raise missing_extra("opencv-python-headless", "models")


def random_crops(
    encoded: tf.Tensor,
    seeds: tf.Tensor,
    *,
    image_size: int,
    min_area: float = 0.08,
    resizer: str = "tensorflow",
) -> tf.Tensor:
    """Crops of random area and shape, flipped at random (Szegedy et al. 2015, arXiv:1409.4842, section 6).

    Args:
      encoded: string [n], JPEGs; n known.
      seeds: int64 [n, 2]; a crop and its flip are a pure function of its seed.
      image_size: height and width of the result, in pixels.
      min_area: the smallest fraction of the image's area that is kept; the largest is 1. The crop's width is 3/4 to
        4/3 of its height.
      resizer: one of RESIZERS.

    Returns:
      uint8 [n, image_size, image_size, 3].

    Raises:
      tf.errors.InvalidArgumentError: one of `encoded` is not a JPEG, or a damaged one.
    """

    def window(one: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(one),
            bounding_boxes=tf.zeros([1, 0, 4]),
            seed=seed,
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(min_area, 1.0),
            max_attempts=100,
            min_object_covered=0.1,
            use_image_if_no_bounding_boxes=True,
        )
        return begin[:2], size[:2], tf.random.stateless_uniform([], seed + 1, maxval=2, dtype=tf.int32) == 1

    return _crops(window, (encoded, seeds), image_size, resizer)


def centre_crops(
    encoded: tf.Tensor, *, image_size: int, central_fraction: float = 0.875, resizer: str = "tensorflow"
) -> tf.Tensor:
    """The centres of JPEGs: squares with `central_fraction` times their shorter sides.

    Up to rounding, the same pixels as resizing the shorter side to image_size / central_fraction (224 / 0.875 = 256)
    and cropping the centre.

    The arguments, the result and the errors are those of `random_crops`.
    """

    def window(one: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
        sides = tf.io.extract_jpeg_shape(one)[:2]
        square = tf.cast(tf.round(tf.cast(tf.reduce_min(sides), tf.float32) * central_fraction), tf.int32)
        square = tf.fill([2], tf.maximum(square, 1))
        return (sides - square) // 2, square, None

    return _crops(window, (encoded,), image_size, resizer)


def _crops(
    window: Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]],
    elements: tuple[tf.Tensor, ...],
    image_size: int,
    resizer: str,
) -> tf.Tensor:
    """Crops of JPEGs, the first of `elements`; `window` gives (begin, size, whether it is flipped) of one element."""

    def decoded(one: tf.Tensor, begin: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """uint8 [height, width, 3]: a window of a JPEG, decoded alone."""
        bounds = tf.concat([begin, size], axis=0)
        return tf.image.decode_and_crop_jpeg(one, bounds, channels=3, dct_method=_DCT_METHOD)

    def crop(one: tuple[tf.Tensor, ...]) -> tf.Tensor:
        begin, size, flip = window(*one)
        # tf.image.resize is this op behind a dozen small ones, which take as long as a tenth of the decoding. From
        # uint8 the result is that from float32, without writing and reading four times the bytes.
        image = decoded(one[0], begin, size)[None]
        image = tf.raw_ops.ResizeBilinear(images=image, size=[image_size, image_size], half_pixel_centers=True)[0]
        # To the nearest: the cast cuts off.
        image = tf.cast(image + 0.5, tf.uint8)
        return image if flip is None else tf.cond(flip, lambda: tf.reverse(image, [1]), lambda: image)

    if resizer == "tensorflow":
        # A loop: a graph with the operations of each image takes a tenth longer.
        return tf.map_fn(crop, elements, fn_output_signature=tf.TensorSpec([image_size, image_size, 3], tf.uint8))
    each = tuple(map(tf.unstack, elements))
    windows = [window(*one) for one in zip(*each, strict=True)]
    images = [decoded(one, begin, size) for one, (begin, size, _) in zip(each[0], windows)]
    flips = tf.stack([False if flip is None else flip for *_, flip in windows])
    return _resized_by_opencv(images, flips, image_size)


def _resized_by_opencv(images: Sequence[tf.Tensor], flips: tf.Tensor, image_size: int) -> tf.Tensor:
    """uint8 [n, image_size, image_size, 3] of images of any sizes, mirrored where `flips`, bool [n], says so.

    OpenCV's bilinear resize of uint8 rounds otherwise than TensorFlow's, by up to one or two of 255. It is called
    through Python, on the host that the pipeline is built on, once for all images: while it resizes it holds no lock
    of Python's.
    """

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
