"""Prepares ImageNet, or any folder of images by class, for training: checked, in shards, with an index.

    tfbigbatch prepare-imagenet --source=FOLDER --output_dir=data/imagenet_prepared

FOLDER holds train/CLASS/*.jpg and val/ or validation/ in the same layout; or tiny-imagenet; or what ImageNet's tars
hold, with all validation images side by side (--validation_labels=FILE then gives their synsets, one a line in the
order of the image names); or existing TFRecords, which are indexed in place.

Every image is decoded. CMYK is converted to RGB, and a PNG named .JPEG to JPEG; grayscale is kept. Truncated files and
files that are no images are left out and listed. EXIF orientation is not applied, as in the reference pipelines. The
same command resumes, and skips work that is already done.

--max_side=320 stores larger images with a shorter side of 320 pixels, as JPEGs of --quality=90: they take fewer bytes
and less time to decode. docs/images.md has the figures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli.prepare import shards_of
from tfbigbatch.data import left_out
from tfbigbatch.data.images.prepare import layouts, prepare
from tfbigbatch.utils.processes import cores

_SHOWN = 20


def define_flags() -> None:
    flags.DEFINE_string("source", None, f"Source of the images. {layouts.UNDERSTOOD}", required=True)
    flags.DEFINE_string("output_dir", None, "Folder for the prepared dataset; the trainer's --data_dir.", required=True)
    flags.DEFINE_string(
        "validation_labels",
        None,
        "File of the validation images' classes: one a line in the order of the image names, or NAME CLASS lines.",
    )
    flags.DEFINE_float(
        "validation_share",
        None,
        "Fraction of each class to hold out where there are no validation images; 0 for none. "
        f"Default: {layouts.VALIDATION_SHARE:g}, or one image of each class where that is none.",
    )
    flags.DEFINE_list("shards", [], "Number of shards, as train:1024,validation:128. Default: of about 128 MB each.")
    flags.DEFINE_integer(
        "max_side", None, "Store larger images, of the same shape, with a shorter side of this many pixels."
    )
    flags.DEFINE_integer("quality", 90, "Quality of the JPEGs that --max_side makes, 1 to 100.")
    flags.DEFINE_integer("seed", 0, "Seed of the order of the images and of the held-out fraction.")
    flags.DEFINE_float("max_bad_share", 0.01, "Fail if a larger fraction of the images has to be left out.")
    flags.DEFINE_integer("processes", cores(), "Number of processes. Default: one per core.", lower_bound=1)
    flags.DEFINE_bool(
        "overwrite", False, "Replace a dataset that was prepared in --output_dir from other images or options."
    )


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    given = {field.name: flag[field.name].value for field in dataclasses.fields(prepare.Options)}
    options = prepare.Options(**{**given, "shards": shards_of(flag.shards)})
    print(f"looking through {flag.source}", flush=True)
    content, already = prepare.prepare(flag.source, flag.output_dir, options, say=lambda line: print(line, flush=True))
    for image in content["left_out"]:
        print(f"left out  {image['name']}: {image['reason']}")
    for image in content["fixed"][:_SHOWN]:
        print(f"fixed     {image['name']}: {image['reason']}")
    if len(content["fixed"]) > _SHOWN:
        print(f"fixed     {len(content['fixed']) - _SHOWN:,} more; manifest.json names them")
    for reason, files in content["unused"].items():
        print(f"not used  {files['files']:,} files, such as {files['first'][0]}: {reason}")
    print(f"{flag.output_dir} {'holds these images already' if already else 'is prepared'}:")
    for name, split in content["splits"].items():
        size = sum(file["bytes"] for file in split["files"])
        print(f"  {name:10s}  {split['examples']:>9,} images, {len(split['files']):,} files, {size / 1e6:,.1f} MB")
    print(f"  classes     {len(content['classes']):>9,}")
    if "max_side" in content:
        print(f"  stored      {content['resized']:>9,} images made smaller: {content['max_side']} pixels, shorter side")
    accounts = [
        left_out.Account(name, "images", counts["images"], counts["left_out"])
        for name, counts in content["counts"].items()
    ]
    unused = {reason: files["files"] for reason, files in content["unused"].items()}
    accounts += [left_out.Account("others", "files", sum(unused.values()), unused)] if unused else []
    print(*left_out.table(accounts), sep="\n")
