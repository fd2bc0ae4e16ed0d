"""Checking one image: what stays, what is put right, stored smaller or cannot be used; and that TensorFlow agrees."""

import io
import math

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from tests.helpers.datasets.image_sets import BAD, encoded, picture
from tfbigbatch.data.images.prepare import check

PLAIN = encoded(quality=90)


def exif(orientation):
    tags = PIL.Image.Exif()
    tags[0x112] = orientation
    return tags.tobytes()


def patched(data, marker, place, content):
    """The JPEG with bytes changed, counted from a marker."""
    start = data.index(marker) + place
    return data[:start] + content + data[start + len(content) :]


def decoded(data):
    """The pixels as the training pipeline gets them."""
    return tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy().astype(int)


FINE = {
    "baseline": PLAIN,
    "progressive": encoded(progressive=True),
    "4:4:4": encoded(subsampling="4:4:4"),
    "restart markers": encoded(restart_marker_blocks=2),
    "grayscale": encoded(picture().convert("L")),
    "grayscale, progressive": encoded(picture().convert("L"), progressive=True),
    "stored as RGB": encoded(keep_rgb=True),
    "EXIF says rotated": encoded(exif=exif(6)),
    "EXIF is damaged": encoded(exif=b"Exif\0\0MM\0\x2a\0\0\0\x08\xff\xff"),
    "a large colour profile": encoded(icc_profile=bytes(100000)),
    "a comment": encoded(comment=b"\xff\xd9" * 9),
    "garbage behind its end": PLAIN + b"garbage",
    "a picture behind its end": encoded(kind="MPO", save_all=True, append_images=[picture(1)]),
    "extended sequential": patched(PLAIN, b"\xff\xc0", 1, b"\xc1"),
    "one pixel": encoded(picture(size=(1, 1))),
    "fill bytes before a marker": PLAIN.replace(b"\xff\xc0", b"\xff\xff\xff\xc0"),
}


@pytest.mark.parametrize("name", FINE)
def test_a_fine_jpeg_stays_as_it_is(name):
    image = check.check(FINE[name])
    assert image.encoded == FINE[name] and image.fixed is None
    assert image.colorspace == ("Grayscale" if "gray" in name else "RGB")
    assert decoded(image.encoded).shape == (image.height, image.width, 3)
    # Not turned by 90 degrees, whatever EXIF says.
    assert (image.width, image.height) == ((1, 1) if name == "one pixel" else (20, 12))


FIXED = {
    "CMYK": (encoded(picture().convert("CMYK"), quality=95), "CMYK converted to RGB"),
    "PNG": (encoded(kind="PNG"), "PNG in disguise"),
    "GIF": (encoded(kind="GIF"), "GIF in disguise"),
    "WebP": (encoded(kind="WEBP", lossless=True), "WEBP in disguise"),
    "a PNG with transparency": (encoded(picture().convert("RGBA"), kind="PNG"), "PNG in disguise"),
    "no end": (PLAIN[:-2] + b"garbage" * 9, "no end-of-image marker"),
    "an end within a segment": (PLAIN[:-2] + b"\xff\xe1\xff\xff" + PLAIN[-2:], "no end-of-image marker"),
}


@pytest.mark.parametrize("name", FIXED)
def test_what_training_cannot_read_becomes_a_jpeg_of_the_same_picture(name):
    data, reason = FIXED[name]
    image = check.check(data)
    assert image.fixed.startswith(reason) or reason in image.fixed
    assert image.colorspace == "RGB" and (image.width, image.height) == (20, 12)
    found = PIL.Image.open(io.BytesIO(image.encoded))
    assert (found.format, found.mode, found.size) == ("JPEG", "RGB", (20, 12))
    before = np.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert np.abs(decoded(image.encoded) - before).mean() < 4
    assert check.check(image.encoded) == check.Image(image.encoded, 12, 20, "RGB", None)


@pytest.mark.parametrize("mode, scale", [("LA", 1), ("I;16", 256)])
def test_a_gray_png_becomes_a_gray_jpeg(mode, scale):
    gray = np.full((12, 20), 255, np.uint8)
    gray[:6] = 0
    picture = (
        PIL.Image.fromarray(gray.astype(np.uint16) * 256) if mode == "I;16" else PIL.Image.fromarray(gray).convert(mode)
    )
    assert picture.mode == mode
    image = check.check(encoded(picture, kind="PNG"))
    assert image.colorspace == "Grayscale"
    assert np.abs(decoded(image.encoded)[:, :, 0] - gray).max() < 3


UNUSABLE = {
    "empty": (b"", "empty: 0 bytes"),
    "no image": (b"<html>404</html>", "not an image in a supported format"),
    "only its beginning": (BAD, "not an image in a supported format|cannot be decoded"),
    "its last bytes missing": (PLAIN[:-30], "cannot be decoded: OSError: image file is truncated"),
    "its end marker missing": (PLAIN[:-2], "cannot be decoded: OSError: image file is truncated"),
    "half a progressive one": (FINE["progressive"][:-60], "cannot be decoded: OSError: image file is truncated"),
    "half a PNG": (encoded(kind="PNG")[:-40], "cannot be decoded"),
    "12 bits a sample": (patched(PLAIN, b"\xff\xc0", 4, b"\x0c"), "not an image|cannot be decoded"),
    "four gigapixels": (patched(PLAIN, b"\xff\xc0", 5, b"\xff\xff\xff\xff"), "DecompressionBombError"),
    "TIFF": (encoded(kind="TIFF"), "not an image in a supported format"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_cannot_be_used_is_told_why(name):
    data, reason = UNUSABLE[name]
    for max_side in (None, 5):
        with pytest.raises(check.BadImage, match=reason):
            check.check(data, max_side)


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
        ((321, 4000), (320, 3988)),
        ((320, 4000), None),
    ],
)
def test_the_shorter_side_is_bounded_and_the_shape_kept(size, stored):
    assert check.smaller(*size, 320) == stored
    if stored:
        assert min(stored) == 320 and abs(stored[0] / stored[1] - size[0] / size[1]) < 0.5 / 320 * max(size) / min(size)


@pytest.mark.parametrize("kind", ["progressive", "grayscale", "CMYK"])
def test_a_larger_image_becomes_a_baseline_jpeg_of_the_quality(kind):
    original = PIL.Image.fromarray(smooth(200, 120))
    data = {
        "progressive": lambda: encoded(original, quality=95, progressive=True, comment=b"words"),
        "grayscale": lambda: encoded(original.convert("L"), quality=95),
        "CMYK": lambda: encoded(original.convert("CMYK"), quality=95),
    }[kind]()
    image = check.check(data, 60)
    stored = opened(image.encoded)
    assert image.resized and (image.width, image.height) == stored.size == (100, 60)
    assert (image.fixed is None) == (kind != "CMYK")
    assert stored.format == "JPEG" and "progressive" not in stored.info and "comment" not in stored.info
    assert stored.mode == ("L" if kind == "grayscale" else "RGB")
    # The mean of the four pixels that each covers, of the decoded original.
    before = np.asarray(opened(data).convert("RGB"), np.float64).reshape(60, 2, 100, 2, 3).mean((1, 3))
    assert np.abs(np.asarray(stored.convert("RGB"), np.float64) - before).mean() < 2.5
    assert check.check(image.encoded, 60) == check.Image(image.encoded, 60, 100, image.colorspace, None, resized=False)
