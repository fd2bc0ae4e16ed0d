"""Validates images by decoding them fully, and fixes what a training pipeline could not read. Needs only Pillow.

The result is an RGB or grayscale JPEG that TensorFlow's decoder accepts too. EXIF orientation is not applied:
neither the standard TFRecords of ImageNet nor the models published on them apply it.

Images that are larger than asked for are made smaller, as FFCV does (Leclerc et al. 2023, arXiv:2306.12517): most of
the time of an input pipeline goes into the JPEGs' entropy code, that is into their bytes, and training at 224 pixels
needs few of those. FFCV bounds the longer side; here it is the shorter one, which evaluation's centre is cut from.
"""

from __future__ import annotations

import dataclasses
import io
import re
import struct
import warnings
from typing import Any

from tfbigbatch.errors import missing_extra

QUALITY = 90
"""The quality of JPEGs of images that were made smaller, 1 to 100, as libjpeg counts it."""
# Pillow opens more; some of those run other programs or read other files.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
# Pillow first averages whole blocks of pixels, to this many times the result's size: a large image costs little more.
_REDUCING_GAP = 3.0
_COLORSPACES = {"L": "Grayscale", "RGB": "RGB"}
# What ends a run of entropy-coded bytes: 0xFF and neither a stuffed zero, a restart marker nor a fill byte.
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_END_OF_IMAGE = 0xD9
# Markers without a length: TEM, the restart markers, the start of an image.
_BARE = {0x01, *range(0xD0, 0xD9)}


class BadImage(Exception):
    """An image that cannot be used; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class Image:
    """A valid image.

    Attributes:
      encoded: the JPEG; the original bytes unless something was fixed or the image was made smaller.
      height, width: in pixels.
      colorspace: 'RGB' or 'Grayscale'.
      fixed: what was fixed, in words, or None.
      resized: whether it was made smaller.
    """

    encoded: bytes
    height: int
    width: int
    colorspace: str
    fixed: str | None
    resized: bool = False


def check(data: bytes, max_side: int | None = None, quality: int = QUALITY) -> Image:
    """The Image in encoded bytes, after decoding it to its last pixel.

    A CMYK or YCCK JPEG becomes RGB, and a PNG, GIF, BMP or WebP a JPEG of quality 95 without chroma subsampling, of the
    same size; transparency is dropped, and an animation is its first picture.

    Args:
      data: the file's bytes.
      max_side: the longest that the shorter side may be, in pixels: a larger image is made smaller and is a JPEG of
        `quality` whatever it was, a smaller one is never enlarged. None for images as large as they are.
      quality: see QUALITY.

    Raises:
      BadImage: it is empty, truncated, not an image of those kinds, or too large for Pillow.
      ValueError: Pillow is not installed.
    """
    if not data:
        raise BadImage("empty: 0 bytes")
    try:
        import PIL.Image
    except ImportError:
        raise missing_extra("Pillow", "models") from None
    try:
        with warnings.catch_warnings():
            # About damaged EXIF data and large sizes: all that matters is whether the pixels decode.
            warnings.simplefilter("ignore")
            picture = PIL.Image.open(io.BytesIO(data), formats=_FORMATS)
            picture.load()
            reason, size = _reason_to_encode(picture, data), smaller(picture.width, picture.height, max_side)
            encoded = data
            if size:
                # Lanczos' filter leaves no pixel out.
                picture = _plain(picture).resize(size, PIL.Image.Resampling.LANCZOS, reducing_gap=_REDUCING_GAP)
                # Baseline and 4:2:0, which decode fastest, and the best Huffman code.
                encoded = _as_jpeg(picture, quality=quality, subsampling="4:2:0", optimize=True)
            elif reason is not None:
                picture = _plain(picture)
                encoded = _as_jpeg(picture, quality=95, subsampling=0)
    except PIL.UnidentifiedImageError:
        raise BadImage(f"not an image in a supported format ({', '.join(_FORMATS)})") from None
    except MemoryError:
        raise
    except Exception as error:  # decoders raise any error on damaged data
        raise BadImage(f"cannot be decoded: {type(error).__name__}: {error}") from None
    return Image(encoded, picture.height, picture.width, _COLORSPACES[picture.mode], reason, size is not None)


def smaller(width: int, height: int, max_side: int | None) -> tuple[int, int] | None:
    """(width, height) of the same shape with a shorter side of `max_side`; None for an image that is small enough."""
    shorter = min(width, height)
    if max_side is None or shorter <= max_side:
        return None
    return max(1, round(width * max_side / shorter)), max(1, round(height * max_side / shorter))


def _reason_to_encode(picture: Any, data: bytes) -> str | None:
    """The reason that the bytes cannot stay as they are, or None."""
    # MPO is a JPEG with further pictures behind it, which decoders ignore.
    if picture.format not in ("JPEG", "MPO"):
        return f"{picture.format} in disguise, encoded as JPEG"
    if picture.mode not in _COLORSPACES:
        return f"{picture.mode} converted to RGB"
    if not reaches_its_end(data):
        return "encoded again: no end-of-image marker where its segments lead"
    return None


def _plain(picture: Any) -> Any:
    """The picture in 8-bit grayscale or RGB."""
    if picture.mode in _COLORSPACES:
        return picture
    if picture.mode.startswith("I"):
        # 16-bit gray; a plain conversion would cut off at 255 instead of scaling.
        picture = picture.point(lambda value: value / 256)
        return picture.convert("L")
    return picture.convert("L" if picture.mode in ("1", "LA") else "RGB")


def _as_jpeg(picture: Any, **options: Any) -> bytes:
    """The JPEG of a picture's pixels, without EXIF, profile and comments."""
    picture.info = {}
    file = io.BytesIO()
    picture.save(file, "JPEG", **options)
    return file.getvalue()


def reaches_its_end(data: bytes) -> bool:
    """True if a JPEG's segments lead from one to the next to its end-of-image marker.

    Pillow stops at the last pixel; TensorFlow reads on to this marker, and refuses the image without it.

    Args:
      data: bytes that begin with a start-of-image marker.
    """
    position = 2
    while True:
        # Bytes before the marker are skipped, as decoders do; in a scan they are its entropy-coded data.
        found = _MARKER.search(data, position)
        if found is None:
            return False
        marker, position = data[found.end() - 1], found.end()
        if marker == _END_OF_IMAGE:
            return True
        if marker in _BARE:
            continue
        if position + 2 > len(data):
            return False
        position += struct.unpack_from(">H", data, position)[0]
