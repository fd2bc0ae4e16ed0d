"""Times the image pipeline beside a bare decode of the same bytes, and beside tf-models-official's.

    python benchmarks/images.py --source=FOLDER_OF_JPEGS --results=images.json

The JPEGs are repeated to a few thousand records. The contenders take turns in one process. Bare decode is the
floor: of bytes in memory it parses the header, draws a crop and calls `decode_and_crop_jpeg`, and returns one pixel.
All others end in batches of images of one size.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import harness

_UNTIMED = 2


def write_records(jpegs: Sequence[bytes], folder: str, records: int, files: int) -> Any:
    """The manifest's split of the JPEGs, repeated to `records` records in `files` files."""
    from tfbigbatch.data.images.manifest import Split
    from tfbigbatch.data.records import tfrecord

    paths = [os.path.join(folder, f"train-{file:05d}") for file in range(files)]
    for first, path in enumerate(paths):
        with open(path, "wb") as file:
            for number in range(first, records, files):
                picture = number % len(jpegs)
                features = {"image/encoded": jpegs[picture], "image/class/label": picture + 1}
                file.write(tfrecord.framed(tfrecord.example(features)))
    offsets = [tfrecord.offsets(path) for path in paths]
    return Split.of_files("train", paths, offsets)


def bare_decode(jpegs: Sequence[bytes], split: Any, given: argparse.Namespace) -> Any:
    """Random crops of JPEGs in memory, decoded and no more."""
    import tensorflow as tf

    def crop(encoded: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(encoded),
            tf.zeros([1, 0, 4]),
            seed=tf.stack([0, number]),
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=100,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], size[:2]], axis=0)
        return tf.image.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_FAST")

    numbers = tf.data.Dataset.range(tf.int64.max)
    repeated = tf.data.Dataset.from_tensor_slices(jpegs).repeat()
    crops = tf.data.Dataset.zip(repeated, numbers).map(crop, num_parallel_calls=given.threads)
    return crops.map(lambda image: image[0, 0]).batch(given.batch_size)


def tf_models_official(jpegs: Sequence[bytes], split: Any, given: argparse.Namespace) -> Any:
    """Its classification decoder and parser, in its order: read, shuffle, parse and decode, batch, prefetch."""
    import tensorflow as tf
    from official.vision.dataloaders import classification_input

    decoder = classification_input.Decoder()
    parser = classification_input.Parser([given.image_size] * 2, len(jpegs)).parse_fn(is_training=True)
    records = tf.data.Dataset.from_tensor_slices(list(split.files)).interleave(
        tf.data.TFRecordDataset, cycle_length=given.files, num_parallel_calls=given.threads
    )
    examples = records.repeat().shuffle(1024).map(decoder.decode, num_parallel_calls=given.threads)
    examples = examples.map(parser, num_parallel_calls=given.threads)
    return examples.batch(given.batch_size, drop_remainder=True).prefetch(2)


def ours(jpegs: Sequence[bytes], split: Any, given: argparse.Namespace, **settings: Any) -> Any:
    """The package's training batches; settings as of `ImageRecords`."""
    import tensorflow as tf

    from tfbigbatch.data.images.dataset import ImageRecords
    from tfbigbatch.data.images.manifest import Manifest

    manifest = Manifest(tuple(map(str, range(len(jpegs)))), "image/encoded", "image/class/label", 1, {})
    shared = {"image_size": given.image_size, "shuffle_window": 1024, "threads": given.threads}
    return ImageRecords(split, manifest, **shared, **settings).training_batches(
        tf.distribute.InputContext(1, 0, 1),
        batch_size=given.batch_size,
        seed=0,
        first_step=0,
        last_step=1_000_000,
    )


CONTENDERS: dict[str, Callable[..., Any]] = {
    "bare_decode": bare_decode,
    "tf_models_official": tf_models_official,
    "tfbigbatch": ours,
    "tfbigbatch_opencv": lambda *given: ours(*given, resizer="opencv"),
}


def speed(batches: Any, given: argparse.Namespace) -> harness.Figures:
    """Images a second over the timed batches, after those that fill the buffers."""
    iterator = iter(batches)
    for _ in range(_UNTIMED):
        next(iterator)
    found = harness.timed(lambda: [next(iterator) for _ in range(given.batches)])
    images = given.batches * given.batch_size
    return {"images_per_second": images / found["seconds"], "of_a_core": images / found["cpu_seconds"]}


def main() -> None:
    """Measures, prints the table, writes the file."""
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="folder of JPEGs, at any depth")
    parser.add_argument("--records", type=int, default=4000, help="the JPEGs are repeated to as many")
    parser.add_argument("--files", type=int, default=8, help="TFRecord files that they are written to")
    parser.add_argument("--image_size", type=int, default=224, help="pixels of a side")
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--threads", type=int, default=cores, help="of each contender")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, default=12, help="timed in a turn")
    parser.add_argument("--only", default=",".join(CONTENDERS), help="contenders, with commas between")
    parser.add_argument("--results", help="also write the figures to this JSON file")
    given = parser.parse_args()
    jpegs = []
    for path in harness.jpegs(given.source):
        with open(path, "rb") as file:
            jpegs.append(file.read())
    with tempfile.TemporaryDirectory() as folder:
        split = write_records(jpegs, folder, given.records, given.files)

        contenders = {
            name: lambda make=CONTENDERS[name]: speed(make(jpegs, split, given), given)
            for name in given.only.split(",")
        }
        measured = harness.in_turns(contenders, given.turns, warm_ups=0)
    rows = [[name, *(f"{value:,.0f}" for value in harness.medians(turns).values())] for name, turns in measured.items()]
    print(harness.table(["", "images a second", "of a core"], rows))
    harness.write(given.results, setting=vars(given), turns=measured)


if __name__ == "__main__":
    main()
