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

import collections
from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import prepare as commands
from tfbigbatch.data.images.prepare import layouts, prepare
from tfbigbatch.data.records.preparation import account


def define_flags() -> None:
    flags.DEFINE_string("source", None, f"Source of the images. {layouts.UNDERSTOOD}", required=True)
    commands.define_flags(prepare.Options)


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    commands.say(f"looking through {flag.source}")
    options = commands.given(prepare.Options)
    content, already = prepare.prepare(flag.source, flag.output_dir, options, commands.say)
    for image in content["left_out"]:
        print(f"left out  {image['name']}: {image['reason']}")
    if content["fixed"]:
        first = content["fixed"][0]
        print(f"fixed     {len(content['fixed']):,} images, such as {first['name']}: {first['reason']}")
    for reason, files in content["unused"].items():
        print(f"not used  {files['files']:,} files, such as {files['first'][0]}: {reason}")
    print(f"{flag.output_dir} {'holds these images already' if already else 'is prepared'}:")
    for name, split in content["splits"].items():
        size = sum(file["bytes"] for file in split["files"])
        print(f"  {name:10s}  {split['examples']:>9,} images, {len(split['files']):,} files, {size / 1e6:,.1f} MB")
    print(f"  classes     {len(content['classes']):>9,}")
    if content.get("max_side"):
        print(f"  stored      {content['resized']:>9,} images made smaller: {content['max_side']} pixels, shorter side")
    for name, split in content["splits"].items():
        bad = [image["reason"].partition(":")[0] for image in content["left_out"] if image["split"] == name]
        print(account(name, "images", split["examples"] + len(bad), collections.Counter(bad)))
    if unused := {reason: files["files"] for reason, files in content["unused"].items()}:
        print(account("others", "files", sum(unused.values()), unused))
