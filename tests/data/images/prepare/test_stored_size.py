"""Images stored smaller: the size, what stays byte for byte, and how close the pixels are to an area's mean."""

import io
import math

import numpy as np
import PIL.Image
import pytest

from tests.helpers.datasets.image_sets import encoded, picture
from tfbigbatch.data.images.prepare import check
from tfbigbatch.data.images.prepare.stored_size import StoredSize


def opened(data):
    return PIL.Image.open(io.BytesIO(data))


def smooth(width, height):
    """Slow waves of light and slower ones of colour, which any good filter finds alike: uint8 [height, width, 3]."""
    rows, columns = np.mgrid[0:height, 0:width]

    def wave(across, down):
        return np.sin(2 * math.pi * (across * columns / width + down * rows / height))

    colours = np.stack([wave(1, 0), wave(0, 1), wave(1, 1)], -1)
    return (127.5 + 80 * wave(2, 3)[..., None] + 30 * colours).round().astype(np.uint8)


@pytest.mark.parametrize(
    "size, stored",
    [
        ((500, 375), (427, 320)),
        ((375, 500), (320, 427)),
        ((640, 640), (320, 320)),
        ((321, 4000), (320, 3988)),
        ((320, 4000), None),
        ((4000, 320), None),
        ((64, 64), None),
    ],
)
def test_the_shorter_side_is_bounded_and_the_shape_kept(size, stored):
    assert StoredSize(320).size(*size) == stored
    if stored:
        assert min(stored) == 320 and abs(stored[0] / stored[1] - size[0] / size[1]) < 0.5 / 320 * max(size) / min(size)


@pytest.mark.parametrize("kind", ["baseline", "progressive", "grayscale", "PNG", "CMYK"])
def test_a_larger_image_becomes_a_baseline_jpeg_of_the_quality(kind):
    original = PIL.Image.fromarray(smooth(200, 120))
    data = {
        "baseline": lambda: encoded(original, quality=95),
        "progressive": lambda: encoded(original, quality=95, progressive=True, comment=b"words"),
        "grayscale": lambda: encoded(original.convert("L"), quality=95),
        "PNG": lambda: encoded(original, kind="PNG"),
        "CMYK": lambda: encoded(original.convert("CMYK"), quality=95),
    }[kind]()
    image = check.check(data, StoredSize(60))
    stored = opened(image.encoded)
    assert image.resized and (image.width, image.height) == stored.size == (100, 60)
    assert (image.fixed is None) == (kind not in ("PNG", "CMYK"))
    assert stored.format == "JPEG" and "progressive" not in stored.info and "comment" not in stored.info
    assert stored.mode == ("L" if kind == "grayscale" else "RGB") and image.channels == len(stored.getbands())
    # The mean of the four pixels that each covers, of the decoded original.
    before = np.asarray(opened(data).convert("RGB"), np.float64).reshape(60, 2, 100, 2, 3).mean((1, 3))
    assert np.abs(np.asarray(stored.convert("RGB"), np.float64) - before).mean() < 2.5
    assert check.check(image.encoded, StoredSize(60)) == check.Image(
        image.encoded, 60, 100, image.colorspace, None, resized=False
    )


def test_no_pixel_is_left_out():
    # A pattern of single pixels: what takes some and leaves others sees black or white, its mean is gray.
    checkered = (np.indices((256, 256)).sum(0) % 2 * 255).astype(np.uint8)
    image = check.check(encoded(PIL.Image.fromarray(checkered), kind="PNG"), StoredSize(32, quality=95))
    assert np.abs(np.asarray(opened(image.encoded), int) - 127.5).max() < 8


def test_a_smaller_image_stays_byte_for_byte_and_is_put_right_as_ever():
    for data in (encoded(), encoded(progressive=True), encoded(picture().convert("L"))):
        assert check.check(data, StoredSize(12)) == check.check(data)
        assert check.check(data, StoredSize(12)).encoded == data
    png = encoded(kind="PNG")
    assert check.check(png, StoredSize(12)) == check.check(png)


def test_a_lower_quality_takes_fewer_bytes_and_comes_less_close():
    noise = np.random.default_rng(0).integers(0, 256, (90, 120, 3)).astype(np.uint8)
    original = PIL.Image.fromarray(noise).resize((480, 360), PIL.Image.Resampling.BICUBIC)
    data, exact = encoded(original, kind="PNG"), original.resize((240, 180), PIL.Image.Resampling.LANCZOS)
    images = [check.check(data, StoredSize(180, quality)).encoded for quality in (50, 75, 90, 95)]
    errors = [np.square(np.asarray(opened(one), float) - np.asarray(exact, float)).mean() for one in images]
    assert [len(one) for one in images] == sorted(map(len, images)) and errors == sorted(errors, reverse=True)
    assert StoredSize(180) == StoredSize(180, 90)


def test_a_damaged_image_is_bad_whatever_its_size():
    data = encoded(PIL.Image.fromarray(smooth(200, 120)))
    for broken in (data[: len(data) // 2], b"", b"<html>"):
        with pytest.raises(check.BadImage):
            check.check(broken, StoredSize(60))


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("max_side", 0, "--max_side=0 is out of range; expected a whole number of 1 or more"),
        ("max_side", -320, "--max_side=-320 is out of range"),
        ("max_side", math.nan, "--max_side=nan is not a whole number"),
        ("max_side", math.inf, "--max_side=inf is not a whole number"),
        ("max_side", 320.5, "--max_side=320.5 is not a whole number"),
        ("max_side", "320", "--max_side='320' is not a number"),
        ("max_side", True, "--max_side=True is not a number"),
        ("quality", 0, "--quality=0 is out of range; expected a whole number from 1 to 100"),
        ("quality", 101, "--quality=101 is out of range"),
        ("quality", math.nan, "--quality=nan is not a whole number"),
        ("quality", "high", "--quality='high' is not a number"),
    ],
)
def test_a_size_or_quality_that_is_none_is_refused(name, value, said):
    with pytest.raises(ValueError, match=said):
        StoredSize(**{"max_side": 320, name: value})


def test_numpy_numbers_are_taken():
    assert StoredSize(np.int64(320), np.float32(75)) == StoredSize(320, 75)
