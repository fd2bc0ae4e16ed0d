"""Prepares an image dataset: finds the images of a source, checks them, and writes them into TFRecord shards."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import check, existing, layouts
from tfbigbatch.data.images.prepare.check import StoredSize
from tfbigbatch.data.records import preparation, shards, tfrecord
from tfbigbatch.data.records.preparation import option
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.errors import InputError

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
    validation_share: float = option(
        0.1, "Fraction of each class, one image or more, to hold out where there are no validation images; 0 for none."
    )
    shards: dict[str, int] = dataclasses.field(default_factory=dict)
    max_side: int | None = option(
        None, "Store larger images, of the same shape, with a shorter side of this many pixels."
    )
    quality: int = option(StoredSize.quality, "Quality of the JPEGs that --max_side makes, 1 to 100.")
    seed: int = option(0, "Seed of the order of the images and of the held-out fraction.")
    max_bad_share: float = option(0.01, "Fail if a larger fraction of the images has to be left out.")
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        preparation.check_options(
            self,
            {
                "validation_share": (0 <= self.validation_share < 1, "0 to less than 1"),
                "max_side": (self.max_side is None or self.max_side >= 1, "1 or more"),
                "quality": (1 <= self.quality <= 100, "1 to 100"),
                "max_bad_share": (0 <= self.max_bad_share <= 1, "0 to 1"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )

    @property
    def stored_size(self) -> StoredSize | None:
        """The size that larger images are stored with; None for images as they are."""
        return None if self.max_side is None else StoredSize(self.max_side, self.quality)


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
      ValueError: the source is not understood or incomplete; too many images are bad; or as preparation.prepare.
      Preempted: SIGINT or SIGTERM was received; the same call resumes.
    """
    job: preparation.Preparation
    records = existing.find(source)
    if records is None:
        preparation.check_outside(source, output_dir)
        job = Conversion(source, output_dir, options)
    else:
        given = [name for name in ("validation_labels", "shards", "max_side") if getattr(options, name)]
        if given:
            raise InputError(f"--{given[0]} is not for TFRecords, which {source} holds: they stay as they are.")
        job = existing.Indexing(source, records)
    return preparation.prepare(job, output_dir, processes=options.processes, overwrite=options.overwrite, say=say)


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
    """The content of a shard.

    Attributes:
      files: its images, in their order.
      labels: int64 [files], indices of classes.
      classes: the names of all classes.
      stored_size: StoredSize of its images; None for their own.
    """

    files: layouts.Files
    labels: np.ndarray
    classes: tuple[str, ...]
    stored_size: StoredSize | None = None


def plan(source: layouts.Source, folder: str, options: Options) -> list[Shard]:
    """The shards of a source; the images of a split are spread over them in a seeded order.

    Args:
      source: the images.
      folder: the prepared folder.
      options: Options.

    Raises:
      ValueError: a number of shards is out of range.
    """
    planned = []
    for split in ("train", "validation"):
        images = source.splits.get(split)
        count = len(images.labels) if images else 0
        if not 0 <= options.shards.get(split, 0) <= count:
            raise InputError(f"--shards={split}:{options.shards[split]}: expected 1 to {count:,}, its images.")
        if images:
            size = int(np.maximum(images.files.sizes, 0).sum())
            total = options.shards.get(split) or max(1, min(_FEWEST, count // _IMAGES_EACH), -(-size // _SHARD_BYTES))
            order = np.array(layouts.order(images.files.names, options.seed, split), np.int64)
            for number, indices in enumerate(np.array_split(order, total)):
                files, labels = images.files.only(indices), images.labels[indices]
                content = Content(files, labels, source.classes, options.stored_size)
                planned.append(Shard(split, number, total, folder, content))
    return planned


def write(shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
    """Writes a shard of `Content`.

    Args:
      shard: the shard.
      tick: called after each image.

    Returns:
      The record of shards.write: the numbers of 'images' and 'records', and of those that were 'resized'; names and
      reasons of the images that were 'fixed' and 'left_out'.

    Raises:
      ValueError: the folder cannot be written.
    """
    files = shard.content.files
    said: dict[str, Any] = {"images": len(files.names), "records": 0, "resized": 0, "fixed": [], "left_out": []}

    def runs() -> Iterator[list[bytes]]:
        for index, name in enumerate(files.names):
            image, reason = None, None
            try:
                image = check.check(files.read(index), shard.content.stored_size)
                reason = image.fixed
            except OSError as error:
                reason = f"cannot be read: {error.strerror or error}"
            except check.BadImage as error:
                reason = str(error)
            if reason:
                said["fixed" if image else "left_out"].append({"name": files.prefix + name, "reason": reason})
            if image:
                said["records"] += 1
                said["resized"] += image.resized
                yield [_example(shard.content, index, image)]
            tick()

    return shards.write(shard, runs(), said)


def _example(content: Content, index: int, image: check.Image) -> bytes:
    """The serialized example of an image: the features of the standard ImageNet records except its boxes."""
    label = int(content.labels[index])
    return tfrecord.example(
        {
            IMAGE_KEY: image.encoded,
            "image/format": b"JPEG",
            "image/height": image.height,
            "image/width": image.width,
            "image/colorspace": image.colorspace.encode(),
            "image/channels": image.channels,
            LABEL_KEY: label + LABEL_OFFSET,
            "image/class/synset": content.classes[label].encode(errors="surrogateescape"),
            "image/filename": os.path.basename(content.files.names[index]).encode(errors="surrogateescape"),
        }
    )


class Conversion(preparation.Preparation):
    """Writes the images of a source into shards.

    Args:
      source: path of images in a layout of `layouts`.
      folder: the prepared folder.
      options: prepare.Options.

    Raises:
      ValueError: as layouts.find and plan do.
    """

    kind, load = image_manifest.KIND, staticmethod(image_manifest.load)
    unit, function = "image", staticmethod(write)

    def __init__(self, source: str, folder: str, options: Options) -> None:
        self._options = options
        self._found = found = layouts.find(
            source,
            validation_labels=options.validation_labels,
            validation_share=options.validation_share,
            seed=options.seed,
        )
        self._shards = plan(found, folder, options)
        totals = {shard.split: shard.total for shard in self._shards}
        self.splits = tuple(totals)
        images = {split: found.splits[split] for split in totals}
        counts = {split: len(part.labels) for split, part in images.items()}
        self._contents = f"{found.layout}: {len(found.classes):,} classes, " + ", ".join(
            f"{count:,} {split} images in {totals[split]:,} shards" for split, count in counts.items()
        )
        kept: dict[str, Any] = {"seed": options.seed, "shards": totals}
        if found.held_out:
            kept["validation_share"] = options.validation_share
        if options.stored_size:
            kept |= dataclasses.asdict(options.stored_size)
        rows = (
            row
            for part in images.values()
            for row in zip(part.files.names, part.labels.tolist(), part.files.sizes.tolist())
        )
        self.fingerprint = preparation.fingerprint(source, found.layout, kept, [found.classes, counts], rows)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        say(self._contents)
        return self._shards

    def size(self, task: Shard) -> int:
        return len(task.content.labels)

    def save(self, folder: str, results: dict[Shard, dict[str, Any]], say: Callable[[str], object]) -> None:
        left_out = _gathered(results, "left_out")
        self._refuse_too_many(left_out)
        stored = dataclasses.asdict(self._options.stored_size) if self._options.stored_size else {}
        manifest = image_manifest.Manifest(
            self._found.classes, IMAGE_KEY, LABEL_KEY, LABEL_OFFSET, shards.splits_of(results), **stored
        )
        resized = {"resized": sum(record["resized"] for record in results.values())} if stored else {}
        about = {
            **self.fingerprint,
            **resized,
            "fixed": _gathered(results, "fixed"),
            "left_out": left_out,
            "counts": _counts(results),
            "unused": {
                reason: {"files": len(names), "first": sorted(names)[:_NAMED]}
                for reason, names in self._found.unused.items()
            },
        }
        image_manifest.save(folder, manifest, sha256=shards.digests(results), about=about)

    def _refuse_too_many(self, left_out: list[dict[str, str]]) -> None:
        total = sum(map(self.size, self._shards))
        if len(left_out) <= self._options.max_bad_share * total:
            return
        shown = "\n".join(f"  {bad['name']}: {bad['reason']}" for bad in left_out[:_NAMED])
        raise InputError(
            f"{len(left_out):,} of {total:,} images cannot be used, more than --max_bad_share="
            f"{self._options.max_bad_share} allows. The first:\n{shown}\nFix the source, or allow more: finished work "
            "is kept."
        )


def _counts(results: dict[Shard, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The images that were read, and how many were left out for each kind of reason, by split."""
    counts: dict[str, dict[str, Any]] = {}
    for shard, record in results.items():
        of_split = counts.setdefault(shard.split, {"images": 0, "left_out": {}})
        of_split["images"] += record["images"]
        for image in record["left_out"]:
            kind = image["reason"].partition(":")[0]
            of_split["left_out"][kind] = of_split["left_out"].get(kind, 0) + 1
    return counts


def _gathered(results: dict[Shard, dict[str, Any]], what: str) -> list[dict[str, str]]:
    """The images of all shards' 'fixed' or 'left_out', sorted by name."""
    return sorted((image for record in results.values() for image in record[what]), key=lambda image: image["name"])
