"""The size and the quality that images are stored at, where they are larger. Needs only Pillow.

As FFCV does (Leclerc et al. 2023, arXiv:2306.12517): most of the time of an input pipeline goes into the JPEGs' entropy
code, that is into their bytes, and training at 224 pixels needs few of those. FFCV bounds the longer side; here it is
the shorter one, which the centre crop of evaluation is cut from.
"""

from __future__ import annotations

import dataclasses
import io
from typing import Any

from tfbigbatch.utils import arguments

QUALITY = 90
# Pillow first averages whole blocks of pixels, to this many times the result's size: a large image costs little more.
_REDUCING_GAP = 3.0


@dataclasses.dataclass(frozen=True)
class StoredSize:
    """How images are stored that are larger than training needs.

    Attributes:
      max_side: the longest that the shorter side may be, in pixels; a smaller image is never enlarged.
      quality: of the JPEG of an image that was made smaller, 1 to 100, as libjpeg counts it.

    Raises:
      ValueError: one is no whole number, or out of range.
    """

    max_side: int
    quality: int = QUALITY

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_side", arguments.integer("--max_side", self.max_side, least=1))
        object.__setattr__(self, "quality", arguments.integer("--quality", self.quality, least=1, most=100))

    def size(self, width: int, height: int) -> tuple[int, int] | None:
        """(width, height) of the same shape with a shorter side of `max_side`; None for an image that is small enough.

        Args:
          width, height: of the image, in pixels.
        """
        shorter = min(width, height)
        if shorter <= self.max_side:
            return None
        return max(1, round(width * self.max_side / shorter)), max(1, round(height * self.max_side / shorter))

    def resized(self, picture: Any) -> Any | None:
        """The picture made smaller by Lanczos' filter, which leaves no pixel out; None where it is small enough.

        Args:
          picture: PIL.Image.Image in 8-bit grayscale or RGB.
        """
        import PIL.Image

        size = self.size(picture.width, picture.height)
        if size is None:
            return None
        return picture.resize(size, PIL.Image.Resampling.LANCZOS, reducing_gap=_REDUCING_GAP)

    def encoded(self, picture: Any) -> bytes:
        """The JPEG of a picture: baseline and 4:2:0, which decode fastest, and with the best Huffman code for it."""
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=self.quality, subsampling="4:2:0", optimize=True)
        return file.getvalue()
