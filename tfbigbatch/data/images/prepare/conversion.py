"""The work of turning images into shards."""

import contextlib
import os

from tfbigbatch.data.images import manifest as image_manifest
from tfbigbatch.data.images.prepare import check, layouts, shards
from tfbigbatch.data.records import index, prepared_folder
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

_NAMED = 20


class Conversion:
    """Finds the images of a source, and what to write of them.

    Args:
      source: path of images in a layout of `layouts`.
      work: folder for what is needed on the way.
      output_dir: the prepared folder.
      options: prepare.Options.

    Attributes:
      contents: what there is, in words.
      plan: what the result depends on, see claim.plan.
      writes: the paths that it writes.
      function, unit, total: what is done with each of `todo`, in what unit it is counted, and how many there are.

    Raises:
      ValueError: as layouts.find and shards.counts do.
    """

    function, unit = staticmethod(shards.write), "image"

    def __init__(self, source, work, output_dir, options):
        self._unpacked = os.path.join(work, "source.tar")
        self._report = os.path.join(work, "left_out.txt")
        self._max_bad_share = options.max_bad_share
        self._found = found = layouts.find(
            source,
            self._unpacked,
            validation_labels=options.validation_labels,
            words=options.words,
            validation_share=options.validation_share,
            seed=options.seed,
        )
        numbers = shards.counts(found, options.shards, options.shard_megabytes)
        self._shards = shards.plan(found, output_dir, numbers, options.seed)
        self._results = {}
        images = {split: len(part.labels) for split, part in found.splits.items()}
        self.total = sum(images.values())
        self.contents = f"{found.layout}: {len(found.classes):,} classes, " + ", ".join(
            f"{count:,} {split} images in {numbers[split]:,} shards" for split, count in images.items()
        )
        kept = {"seed": options.seed, "shards": numbers}
        if found.held_out:
            kept["validation_share"] = options.validation_share
        rows = (
            row
            for part in found.splits.values()
            for row in zip(part.files.names, part.labels.tolist(), part.files.sizes.tolist())
        )
        self.plan = prepared_folder.fingerprint(source, found.layout, kept, [found.classes, found.texts, images], rows)
        self.writes = [*image_manifest.paths(output_dir, numbers), *(shard.path for shard in self._shards)]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._unpacked)

    def todo(self, begun):
        """The shards that are not whole; `begun` says that the folder was never finished."""
        self._results = {shard.name: shards.done(shard) for shard in self._shards}
        return [shard for shard in self._shards if self._missing(self._results[shard.name], begun)]

    @staticmethod
    def _missing(result, begun):
        # A file that could not be read may be at hand by now, where its disk was away.
        return result is None or (
            begun and any(bad["reason"].startswith(check.UNREADABLE) for bad in result["left_out"])
        )

    def size(self, shard):
        """The shard's images."""
        return len(shard.labels)

    def ended(self, shard, result):
        """Takes note of a shard that was written."""
        self._results[shard.name] = result

    def outcome(self):
        """(the Manifest, dictionary from paths to digests, what else the manifest is to say).

        Raises:
          ValueError: more images were left out than may be.
        """
        left_out = self._gathered("left_out")
        self._refuse_too_many(left_out)
        splits = {}
        for split in self._found.splits:
            part = [shard for shard in self._shards if shard.split == split]
            offsets = [index.offsets(shard.path) for shard in part]
            sizes = [self._results[shard.name]["bytes"] for shard in part]
            splits[split] = image_manifest.Split.of_files(split, [shard.path for shard in part], offsets, sizes)
        manifest = image_manifest.Manifest(
            self._found.classes, shards.IMAGE_KEY, shards.LABEL_KEY, shards.LABEL_OFFSET, splits
        )
        about = {
            "texts": self._found.texts,
            "fixed": self._gathered("fixed"),
            "left_out": left_out,
            "unused": {
                reason: {"files": len(names), "first": sorted(names)[:_NAMED]}
                for reason, names in self._found.unused.items()
            },
        }
        return manifest, {shard.path: self._results[shard.name]["sha256"] for shard in self._shards}, about

    def _gathered(self, what):
        """The images that something is said of, sorted by name."""
        return sorted((image for result in self._results.values() for image in result[what]), key=lambda i: i["name"])

    def _refuse_too_many(self, left_out):
        if len(left_out) <= self._max_bad_share * self.total:
            return
        lines = [f"{bad['name']}: {bad['reason']}" for bad in left_out]
        text = "".join(f"{line}\n" for line in lines)
        atomic_write(self._report, lambda file: file.write(text.encode(errors="surrogateescape")))
        shown = "\n".join(f"  {line}" for line in lines[:_NAMED])
        raise InputError(
            f"{len(lines):,} of {self.total:,} images cannot be used, more than --max_bad_share="
            f"{self._max_bad_share} allows. All are in {self._report}; the first:\n{shown}\nMend the source, or allow "
            "more: what was done so far stays."
        )
