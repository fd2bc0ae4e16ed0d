"""The crop of a JPEG beside an independent bilinear resize in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.images import jpeg


def bilinear(image, size):
    """An image resized to [size, size, 3], centres of pixels at halves, the edge repeated: float64."""

    def weights(length):
        places = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
        low = np.floor(places).astype(int)
        matrix = np.zeros((size, length))
        matrix[np.arange(size), low] += 1 - (places - low)
        matrix[np.arange(size), np.minimum(low + 1, length - 1)] += places - low
        return matrix

    rows, columns = (weights(length) for length in image.shape[:2])
    return np.einsum("ih,hwc,jw->ijc", rows, image.astype(np.float64), columns)


@pytest.mark.parametrize("window", [(0, 0, 60, 90), (7, 11, 40, 33), (20, 50, 12, 9)])
def test_a_window_is_resized_to_the_nearest_of_the_exact_values(window):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3)).astype(np.uint8)
    encoded = tf.io.encode_jpeg(pixels, quality=95)
    top, left, height, width = window
    whole = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_FAST").numpy()
    found = jpeg.resized_window(encoded, tf.constant([top, left]), tf.constant([height, width]), 24).numpy()
    assert found.dtype == np.uint8 and found.shape == (24, 24, 3)
    exact = bilinear(whole[top : top + height, left : left + width], 24)
    # The decoder smooths colours over the window's edge from other pixels than those of the whole picture.
    assert np.abs(found - exact)[1:-1, 1:-1].max() < (0.51 if window == (0, 0, 60, 90) else 12)
    assert np.median(np.abs(found - exact)) < 0.51
