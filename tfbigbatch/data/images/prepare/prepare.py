"""Prepares an image dataset: finds the images of a source, checks and writes them, and resumes after a stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tfbigbatch.data.images.prepare import existing
from tfbigbatch.data.images.prepare.conversion import Conversion
from tfbigbatch.data.images.prepare.stored_size import QUALITY, StoredSize
from tfbigbatch.data.records import preparation
from tfbigbatch.data.records.preparation import check_options


@dataclasses.dataclass(frozen=True)
class Options:
    """How images are prepared.

    Attributes:
      validation_labels, words: paths of text files, see layouts.find.
      validation_share: fraction of each class that is held out where there are no validation images; in [0, 1), or
        None for the default, see layouts.find.
      shards: the number of shards, by split.
      shard_megabytes: approximate size of the shards of other splits, in 10^6 bytes of the images as they are found.
      max_side: images are stored with a shorter side of at most this many pixels; None for their own size.
      quality: of the JPEGs that are made smaller, 1 to 100; None for the default of `max_side`, 90.
      seed: of the order of the images, and of the held-out images.
      max_bad_share: the largest fraction of all images that may be left out, in [0, 1].
      sha256: whether to read existing TFRecords for their digests.
      processes: how many at once.
      overwrite: whether to replace what was prepared from another source or with other options.
      stored_size: of `max_side` and `quality`; None for images as they are.
    """

    validation_labels: str | None = None
    words: str | None = None
    validation_share: float | None = None
    shards: dict[str, int] = dataclasses.field(default_factory=dict)
    shard_megabytes: float = 128.0
    max_side: int | None = None
    quality: int | None = None
    seed: int = 0
    max_bad_share: float = 0.01
    sha256: bool = False
    processes: int = 1
    overwrite: bool = False
    stored_size: StoredSize | None = dataclasses.field(default=None, init=False)

    def __post_init__(self) -> None:
        check_options(
            self,
            {
                "validation_share": (0 <= (self.validation_share or 0) < 1, "0 to less than 1"),
                "max_bad_share": (0 <= self.max_bad_share <= 1, "0 to 1"),
                "shard_megabytes": (self.shard_megabytes > 0, "more than 0"),
                "processes": (self.processes >= 1, "1 or more"),
                "quality": (self.quality is None or self.max_side is not None, "also --max_side, or no --quality"),
            },
        )
        if self.max_side is not None:
            stored_size = StoredSize(self.max_side, QUALITY if self.quality is None else self.quality)
            object.__setattr__(self, "stored_size", stored_size)


def prepare(
    source: str, output_dir: str, options: Options, say: Callable[[str], object] = lambda line: None
) -> tuple[dict[str, Any], bool]:
    """Makes a prepared folder from a source, unless it is complete already.

    Args:
      source: path, see layouts.UNDERSTOOD.
      output_dir: the prepared folder; created if it does not exist.
      options: Options.
      say: called with a line on what was found, before the long work begins.

    Returns:
      (the content of manifest.json; whether the folder was complete already).

    Raises:
      ValueError: the source is not understood or incomplete; too many images are bad; the folder holds
        something else, is locked by another command, or cannot be written.
      Preempted: SIGINT or SIGTERM was received; the same call resumes.
    """
    records = existing.find(source)
    if records is not None:
        job: preparation.Preparation = existing.Indexing(source, records, options)
    else:
        preparation.check_outside(source, output_dir)
        job = Conversion(source, output_dir, options)
    return preparation.prepare(job, output_dir, processes=options.processes, overwrite=options.overwrite, say=say)
