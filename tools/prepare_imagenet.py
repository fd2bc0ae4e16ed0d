"""Prepares ImageNet, or any folder of images by class, for training: checked, in shards, with an index.

    python tools/prepare_imagenet.py --source=FOLDER --output_dir=data/imagenet_prepared

FOLDER holds ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar (then --validation_labels=FILE names the
validation images' synsets, one a line in the order of the images' names); or train/CLASS/*.jpg and val/ or
validation/ in the same shape; or tiny-imagenet, also as its .tar.gz; or TFRecords that are there already, of
which only an index is made. --help lists more.

Each image is decoded. CMYK becomes RGB, and a PNG in disguise a JPEG; grayscale stays. What is truncated or
no image is left out and named. EXIF orientation is not applied, as nowhere in the reference pipelines. The
same command goes on where it was stopped, and finds its work done.
"""

from absl import flags

from tfbigbatch.data.images.prepare import layouts, prepare
from tfbigbatch.utils import command
from tfbigbatch.utils.processes import cores

flags.DEFINE_string("source", None, f"The images. {layouts.UNDERSTOOD}", required=True)
flags.DEFINE_string("output_dir", None, "Where the prepared set goes; the trainer's --data_dir.", required=True)
flags.DEFINE_string(
    "validation_labels",
    None,
    "The validation images' classes: one a line in the order of the images' names, or lines of NAME CLASS.",
)
flags.DEFINE_float(
    "validation_share", 0.1, "What is held out of each class where there are no validation images; 0 for nothing."
)
flags.DEFINE_string("words", None, "Lines of a class and its words; else words.txt beside the images, if there is one.")
flags.DEFINE_list("shards", [], "The number of shards, as train:1024,validation:128. Else by --shard_megabytes.")
flags.DEFINE_float("shard_megabytes", 128, "About how large a shard is; small sets have smaller ones, at most eight.")
flags.DEFINE_integer("seed", 0, "Of the order of the images, and of what is held out.")
flags.DEFINE_float("max_bad_share", 0.01, "Fail where a larger share of the images had to be left out.")
flags.DEFINE_bool("sha256", False, "Read TFRecords that are there already to their end, for their digests.")
flags.DEFINE_integer("processes", None, "Processes at once; left out, one for each core.", lower_bound=1)
flags.DEFINE_bool("overwrite", False, "Replace what was prepared in --output_dir of other images or options.")
_AS_GIVEN = (
    "validation_labels",
    "words",
    "validation_share",
    "shard_megabytes",
    "seed",
    "max_bad_share",
    "sha256",
    "overwrite",
)
_SHOWN = 20


def _main(unused):
    flag = flags.FLAGS
    options = prepare.Options(
        shards=command.shards(flag.shards),
        processes=flag.processes or cores(),
        **{name: flag[name].value for name in _AS_GIVEN},
    )
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


if __name__ == "__main__":
    command.execute(_main)
