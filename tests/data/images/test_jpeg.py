"""The crop of a JPEG beside an independent bilinear resize in float64."""

import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.images import jpeg
from tfbigbatch.errors import InputError


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


@pytest.mark.parametrize("fraction, top, left, size", [(1.0, 0, 15, 60), (0.875, 4, 19, 52), (0.1, 27, 42, 6)])
def test_a_window_is_resized_to_the_nearest_of_the_exact_values(fraction, top, left, size):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3)).astype(np.uint8)
    encoded = tf.io.encode_jpeg(pixels, quality=95)
    whole = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_FAST").numpy()
    [found] = jpeg.centre_crops(tf.stack([encoded]), image_size=24, central_fraction=fraction).numpy()
    assert found.dtype == np.uint8 and found.shape == (24, 24, 3)
    exact = bilinear(whole[top : top + size, left : left + size], 24)
    # The decoder smooths colours over the window's edge from other pixels than those of the whole picture.
    assert np.median(np.abs(found - exact)) < 0.51 and np.abs(found - exact)[5:-5, 5:-5].max() < 12


def test_opencv_makes_the_same_crops_up_to_rounding():
    pytest.importorskip("cv2")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 60, 90, 3)).astype(np.uint8)
    # Of low frequencies, as a photograph is.
    pixels = tf.image.resize(pixels[:, ::12, ::12], [60, 90]).numpy().astype(np.uint8)
    encoded = tf.stack([tf.io.encode_jpeg(each, quality=95) for each in pixels])
    seeds = tf.constant([[0, number] for number in range(4)], tf.int64)
    ours = jpeg.random_crops(encoded, seeds, image_size=24).numpy().astype(int)
    found = jpeg.random_crops(encoded, seeds, resizer="opencv", image_size=24).numpy()
    assert found.dtype == np.uint8 and found.shape == (4, 24, 24, 3)
    assert np.abs(found - ours).max() <= 2 and np.abs(found - ours).mean() < 0.5
    centres = jpeg.centre_crops(encoded, image_size=24).numpy().astype(int)
    assert np.abs(jpeg.centre_crops(encoded, image_size=24, resizer="opencv").numpy() - centres).max() <= 2
    for resizer in jpeg.RESIZERS:
        with pytest.raises(tf.errors.InvalidArgumentError):
            jpeg.random_crops(tf.constant([b"no JPEG"]), seeds[:1], resizer=resizer, image_size=24)


def test_opencv_that_is_not_installed_is_asked_for(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"opencv-python-headless.*pip install 'tfbigbatch\[models\]'"):
        jpeg.check_resizer("opencv")
    with pytest.raises(InputError, match="resizer='open_cv': Did you mean 'opencv'?"):
        jpeg.check_resizer("open_cv")
