"""Prepares an image dataset: finds the images of a source, checks them, and writes them into TFRecord shards."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import check, existing, layouts
from tfbigbatch.data.records import preparation, shards, tfrecord
from tfbigbatch.data.records.preparation import option
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import read_bytes

IMAGE_KEY, LABEL_KEY, LABEL_OFFSET = "image/encoded", "image/class/label", 1
# Approximate bytes of a shard. Small sets are prepared in parallel too: up to so many shards, of so many images each.
_SHARD_BYTES, _FEWEST, _IMAGES_EACH = 128 * 10**6, 8, 1000
# File names that a report gives, at most.
_NAMED = 20


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation; each is a flag of `tfbigbatch prepare-imagenet` with the help that stands here.

    Raises:
      ValueError: a value is out of range.
    """

    validation_labels: str | None = option(
        None, "File of the validation images' classes: one a line in the order of the image names, or NAME CLASS lines."
    )
    validation_fraction: float = option(
        0.1, "Fraction of each class, one image or more, to hold out where there are no validation images; 0 for none."
    )
    max_side: int | None = option(
        None, "Store larger images, of the same shape, with a shorter side of this many pixels."
    )
    quality: int = option(check.QUALITY, "Quality of the JPEGs that --max_side makes, 1 to 100.")
    seed: int = option(0, "Seed of the order of the images and of the held-out fraction.")
    max_bad_fraction: float = option(0.01, "Fail if a larger fraction of the images has to be left out.")
    processes: int = 1

    def __post_init__(self) -> None:
        preparation.check_options(
            self,
            {
                "validation_fraction": (0 <= self.validation_fraction < 1, "0 to less than 1"),
                "max_side": (self.max_side is None or self.max_side >= 1, "1 or more"),
                "quality": (1 <= self.quality <= 100, "1 to 100"),
                "max_bad_fraction": (0 <= self.max_bad_fraction <= 1, "0 to 1"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )


def prepare(
    source: str, output_dir: str, options: Options, say: Callable[[str], object] = lambda line: None
) -> tuple[dict[str, Any], bool]:
    """Makes a prepared folder from a source, unless it is complete already.

    Args:
      source: path, see layouts.UNDERSTOOD.
      output_dir, options, say: see `preparation.prepare`, as for the result and the errors.
    """
    job: preparation.Preparation
    records = existing.find(source)
    if records is None:
        preparation.check_outside(source, output_dir)
        job = Conversion(source, output_dir, options)
    else:
        given = [name for name in ("validation_labels", "max_side") if getattr(options, name)]
        if given:
            raise InputError(f"--{given[0]} is not for TFRecords, which {source} holds: they stay as they are.")
        job = existing.Indexing(source, records)
    return preparation.prepare(job, output_dir, processes=options.processes, say=say)


def plan(source: layouts.Source, folder: str, options: Options) -> list[Shard]:
    """The shards of a source, each of some `layouts.Images`: those of a split are spread over them in seeded order."""
    planned = []
    for split in ("train", "validation"):
        images = source.splits.get(split)
        if images and images.names:
            size = int(np.maximum(images.sizes, 0).sum())
            total = max(1, min(_FEWEST, len(images.names) // _IMAGES_EACH), -(-size // _SHARD_BYTES))
            parts = np.array_split(layouts.order(images.names, options.seed, split), total)
            planned += [Shard(split, number, total, folder, images.only(part)) for number, part in enumerate(parts)]
    return planned


def write(classes: Sequence[str], options: Options, shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
    """Writes a shard, as shards.write.

    Its record has how many images were 'resized', and split, name and reason of those 'fixed' and 'left_out'.
    """
    images: layouts.Images = shard.content
    said: dict[str, Any] = {"resized": 0, "fixed": [], "left_out": []}

    def runs() -> Iterator[list[bytes]]:
        for index, name in enumerate(images.names):
            image, reason = None, None
            try:
                image = check.check(read_bytes(images.path(index)), options.max_side, options.quality)
                reason = image.fixed
            except OSError as error:
                reason = f"cannot be read: {error.strerror or error}"
            except check.BadImage as error:
                reason = str(error)
            if reason:
                found = {"split": shard.split, "name": images.folder + name, "reason": reason}
                said["fixed" if image else "left_out"].append(found)
            if image:
                said["resized"] += image.resized
                yield [_example(images, index, classes, image)]
            tick()

    return shards.write(shard, runs(), said)


def _example(images: layouts.Images, index: int, classes: Sequence[str], image: check.Image) -> bytes:
    """The serialized example of an image: the features of the standard ImageNet records except its boxes."""
    label = int(images.labels[index])
    return tfrecord.example(
        {
            IMAGE_KEY: image.encoded,
            "image/format": b"JPEG",
            "image/height": image.height,
            "image/width": image.width,
            "image/colorspace": image.colorspace.encode(),
            "image/channels": 3 if image.colorspace == "RGB" else 1,
            LABEL_KEY: label + LABEL_OFFSET,
            "image/class/synset": classes[label].encode(errors="surrogateescape"),
            "image/filename": os.path.basename(images.names[index]).encode(errors="surrogateescape"),
        }
    )


class Conversion(preparation.Preparation):
    """Writes the images of a source into shards; raises ValueError as layouts.find does."""

    kind, load = image_manifest.KIND, staticmethod(image_manifest.load)
    unit = "image"

    def __init__(self, source: str, folder: str, options: Options) -> None:
        self._options = options
        self._found = found = layouts.find(
            source,
            validation_labels=options.validation_labels,
            validation_fraction=options.validation_fraction,
            seed=options.seed,
        )
        self._shards = plan(found, folder, options)
        totals = {shard.split: shard.total for shard in self._shards}
        kept = {name: getattr(options, name) for name in ("seed", "validation_fraction", "max_side", "quality")}
        kept["shards"] = totals
        rows = (
            (split, *row)
            for split, part in found.splits.items()
            if split in totals
            for row in zip(part.names, part.labels.tolist(), part.sizes.tolist())
        )
        self.fingerprint = preparation.fingerprint(source, found.layout, kept, found.classes, rows)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        parts = [
            f"{len(self._found.splits[split].names):,} {split} images in "
            f"{sum(shard.split == split for shard in self._shards):,} shards"
            for split in dict.fromkeys(shard.split for shard in self._shards)
        ]
        say(f"{self._found.layout}: {len(self._found.classes):,} classes, {', '.join(parts)}")
        return self._shards

    @property
    def function(self) -> Callable[[Shard, Callable[[], None]], dict[str, Any]]:
        return functools.partial(write, self._found.classes, self._options)

    def size(self, task: Shard) -> int:
        return len(task.content.names)

    def save(self, folder: str, results: dict[Shard, dict[str, Any]]) -> None:
        fixed, left_out = (
            sorted((image for record in results.values() for image in record[kind]), key=lambda image: image["name"])
            for kind in ("fixed", "left_out")
        )
        total, most = sum(map(self.size, self._shards)), self._options.max_bad_fraction
        if len(left_out) > most * total:
            shown = "\n".join(f"  {bad['name']}: {bad['reason']}" for bad in left_out[:_NAMED])
            raise InputError(
                f"{len(left_out):,} of {total:,} images cannot be used, more than --max_bad_fraction={most} allows. "
                f"The first:\n{shown}\nFix the source, or allow more: finished work is kept."
            )
        splits, max_side = shards.splits_of(results), self._options.max_side
        manifest = image_manifest.Manifest(self._found.classes, IMAGE_KEY, LABEL_KEY, LABEL_OFFSET, splits, max_side)
        about = {
            "resized": sum(record["resized"] for record in results.values()),
            "fixed": fixed,
            "left_out": left_out,
            "unused": {
                reason: {"files": len(names), "first": sorted(names)[:_NAMED]}
                for reason, names in self._found.unused.items()
            },
        }
        image_manifest.save(folder, manifest, {**self.fingerprint, **about})
