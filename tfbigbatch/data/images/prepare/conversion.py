"""Converts a source of images to TFRecord shards: which images go into which shard, and the writing of one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import check, layouts, tree
from tfbigbatch.data.images.prepare.stored_size import StoredSize
from tfbigbatch.data.records import preparation, shards, tfrecord
from tfbigbatch.data.records.shards import Shard
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

if TYPE_CHECKING:
    from tfbigbatch.data.images.prepare.prepare import Options

IMAGE_KEY, LABEL_KEY, LABEL_OFFSET = "image/encoded", "image/class/label", 1
# Small sets are prepared in parallel too: up to so many shards, of so many images or more.
_FEWEST, _IMAGES_EACH = 8, 1000
# File names that a report gives, at most.
_NAMED = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
    """What goes into a shard.

    Attributes:
      files: its images, in their order.
      labels: int64 [files], indices of classes.
      classes: the names of all classes.
      texts: what each class is called in words.
      stored_size: StoredSize of its images; None for their own.
    """

    files: tree.Tree
    labels: np.ndarray
    classes: tuple[str, ...]
    texts: tuple[str, ...]
    stored_size: StoredSize | None = None


def counts(source: layouts.Source, asked: dict[str, int], megabytes: float) -> dict[str, int]:
    """The number of shards of each split.

    Args:
      source: the images.
      asked: the numbers that the user set, by split.
      megabytes: approximate size of a shard in other splits, in 10^6 bytes.

    Raises:
      ValueError: a number is out of range, or set for a split that does not exist.
    """
    for split in asked.keys() - source.splits.keys():
        raise InputError(
            f"--shards={split}:{asked[split]}: there is no such split here. It has {' and '.join(source.splits)}."
        )
    found = {}
    for split, images in source.splits.items():
        size = int(np.maximum(images.files.sizes, 0).sum())
        fewest = min(_FEWEST, len(images.labels) // _IMAGES_EACH)
        found[split] = asked.get(split) or max(1, fewest, -(-size // int(megabytes * 1e6)))
        if not 1 <= found[split] <= len(images.labels):
            raise InputError(f"--shards={split}:{found[split]}: expected 1 to {len(images.labels):,}, its images.")
    return found


def plan(
    source: layouts.Source, folder: str, totals: dict[str, int], seed: int, stored_size: StoredSize | None = None
) -> list[Shard]:
    """The shards of a source; the images of a split are spread over them in a seeded order.

    Args:
      source: the images.
      folder: the prepared folder.
      totals: the number of shards of each split.
      seed: of the order.
      stored_size: of the images; None for their own.
    """
    planned = []
    for split, images in source.splits.items():
        order = np.array(layouts.order(images.files.names, seed, split), np.int64)
        for number, indices in enumerate(np.array_split(order, totals[split])):
            files, labels = images.files.only(indices), images.labels[indices]
            content = Content(files, labels, source.classes, source.texts, stored_size)
            planned.append(Shard(split, number, totals[split], folder, content))
    return planned


def write(shard: Shard, tick: Callable[[], None]) -> dict[str, Any]:
    """Writes a shard of `Content`, and then its record.

    Args:
      shard: the shard.
      tick: called after each image; an error that it raises ends the writing, and nothing is left under the shard's
        name.

    Returns:
      The record, as `shards.done`: the numbers of 'images' and 'records', and of those that were 'resized'; names and
      reasons of the images that were 'fixed' and 'left_out'.

    Raises:
      ValueError: the folder cannot be written.
    """
    files = shard.content.files
    said: dict[str, Any] = {"images": len(files.names), "records": 0, "resized": 0, "fixed": [], "left_out": []}

    def runs() -> Iterator[list[bytes]]:
        for index, name in enumerate(files.names):
            where = {"name": files.prefix + name}
            try:
                image = check.check(_bytes(files, index), shard.content.stored_size)
            except check.BadImage as error:
                said["left_out"].append({**where, "reason": str(error)})
            else:
                yield [_example(shard.content, index, image)]
                said["records"] += 1
                said["resized"] += image.resized
                if image.fixed:
                    said["fixed"].append({**where, "reason": image.fixed})
            tick()

    return shards.write(shard, runs(), said)


def _bytes(files: tree.Tree, index: int) -> bytes:
    try:
        return files.read(index)
    except OSError as error:
        raise check.BadImage(f"{check.UNREADABLE}: {error.strerror or error}") from None


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
            "image/class/text": content.texts[label].encode(),
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
      ValueError: as layouts.find and counts do.
    """

    kind, unit, function = image_manifest.KIND, "image", staticmethod(write)

    def __init__(self, source: str, folder: str, options: Options) -> None:
        self._max_bad_share, self._stored_size = options.max_bad_share, options.stored_size
        self._found = found = layouts.find(
            source,
            preparation.progress_path(folder, "source.tar"),
            validation_labels=options.validation_labels,
            words=options.words,
            validation_share=options.validation_share,
            seed=options.seed,
        )
        totals = counts(found, options.shards, options.shard_megabytes)
        self._shards = plan(found, folder, totals, options.seed, options.stored_size)
        self.splits = found.splits
        images = {split: len(part.labels) for split, part in found.splits.items()}
        self._contents = f"{found.layout}: {len(found.classes):,} classes, " + ", ".join(
            f"{count:,} {split} images in {totals[split]:,} shards" for split, count in images.items()
        )
        kept: dict[str, Any] = {"seed": options.seed, "shards": totals}
        if found.held_out:
            given = options.validation_share
            kept["validation_share"] = layouts.VALIDATION_SHARE if given is None else given
        if options.stored_size:
            kept |= dataclasses.asdict(options.stored_size)
        rows = (
            row
            for part in found.splits.values()
            for row in zip(part.files.names, part.labels.tolist(), part.files.sizes.tolist())
        )
        self.fingerprint = preparation.fingerprint(
            source, found.layout, kept, [found.classes, found.texts, images], rows
        )

    def is_whole(self, folder: str) -> bool:
        return image_manifest.is_whole(folder)

    def tasks(self, folder: str, say: Callable[[str], object]) -> list[Shard]:
        say(self._contents)
        return self._shards

    def size(self, task: Shard) -> int:
        return len(task.content.labels)

    def done(self, task: Shard) -> dict[str, Any] | None:
        """The record of a whole shard; None also where a file could not be read: its disk may be back."""
        record = shards.done(task)
        if record is None or any(bad["reason"].startswith(check.UNREADABLE) for bad in record["left_out"]):
            return None
        return record

    def save(self, folder: str, results: dict[Shard, dict[str, Any]], say: Callable[[str], object]) -> None:
        left_out = _gathered(results, "left_out")
        self._refuse_too_many(left_out, preparation.progress_path(folder, "left_out.txt"))
        stored = dataclasses.asdict(self._stored_size) if self._stored_size else {}
        manifest = image_manifest.Manifest(
            self._found.classes, IMAGE_KEY, LABEL_KEY, LABEL_OFFSET, shards.splits_of(results), **stored
        )
        resized = {"resized": sum(record["resized"] for record in results.values())} if stored else {}
        about = {
            **self.fingerprint,
            "texts": self._found.texts,
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

    def _refuse_too_many(self, left_out: list[dict[str, str]], report: str) -> None:
        total = sum(map(self.size, self._shards))
        if len(left_out) <= self._max_bad_share * total:
            return
        lines = [f"{bad['name']}: {bad['reason']}" for bad in left_out]
        text = "".join(f"{line}\n" for line in lines)
        atomic_write(report, lambda file: file.write(text.encode(errors="surrogateescape")))
        shown = "\n".join(f"  {line}" for line in lines[:_NAMED])
        raise InputError(
            f"{len(lines):,} of {total:,} images cannot be used, more than --max_bad_share="
            f"{self._max_bad_share} allows. All are in {report}; the first:\n{shown}\nFix the source, or allow "
            "more: finished work is kept."
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
