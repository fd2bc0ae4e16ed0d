"""Times the image pipeline beside a bare decode of the same bytes, and beside tf-models-official's.

    python tools/bench/images.py --source=FOLDER_OF_JPEGS --results=docs/results/throughput/images.json

The JPEGs are repeated to a few thousand records. The contenders take turns in one process; a figure is the
median of all turns. Bare decode: parse the header, draw a crop, `decode_and_crop_jpeg`, nothing more, of
bytes in memory; once with each crop handed to a Python loop, once with nothing let out of tf.data. All others
end in batches of images of one size.
"""

import glob
import os
import statistics
import tempfile
import time

from absl import flags

from tfbigbatch import command
from tfbigbatch.errors import InputError

flags.DEFINE_string("source", None, "A folder of JPEGs, at any depth.", required=True)
flags.DEFINE_integer("records", 4000, "The JPEGs are repeated to this many.", lower_bound=1)
flags.DEFINE_integer("files", 8, "TFRecord files that they are written to.", lower_bound=1)
flags.DEFINE_integer("image_size", 224, "Pixels of a side.", lower_bound=1)
flags.DEFINE_integer("batch_size", 256, "Images in a batch.", lower_bound=1)
flags.DEFINE_integer("threads", os.cpu_count(), "Of each contender.", lower_bound=1)
flags.DEFINE_integer("turns", 5, "Turns of each contender.", lower_bound=1)
flags.DEFINE_integer("batches", 12, "Timed batches in a turn, after two that are not.", lower_bound=1)
flags.DEFINE_list("only", [], "These contenders alone.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

_UNTIMED = 2


def write_records(pictures, folder, records, files):
    """An `image_manifest.Split` of the pictures, repeated to `records` records in `files` files."""
    from tfbigbatch.data import record_index, tfrecord
    from tfbigbatch.data.image_manifest import Split

    paths = [os.path.join(folder, f"train-{file:05d}") for file in range(files)]
    for first, path in enumerate(paths):
        with open(path, "wb") as file:
            for number in range(first, records, files):
                picture = number % len(pictures)
                features = {"image/encoded": pictures[picture], "image/class/label": picture + 1}
                file.write(tfrecord.framed(tfrecord.example(features)))
    offsets = [record_index.offsets(path) for path in paths]
    return Split.of_files("train", paths, offsets, [os.path.getsize(path) for path in paths])


def bare_decode(pictures, split, options, kept_in=False):
    """Random crops of pictures in memory, decoded and no more, one by one."""
    import tensorflow as tf

    def crop(encoded, number):
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
    repeated = tf.data.Dataset.from_tensor_slices(pictures).repeat()
    crops = tf.data.Dataset.zip(repeated, numbers).map(crop, num_parallel_calls=options.threads)
    return crops.map(lambda image: image[0, 0]).batch(options.batch_size) if kept_in else crops.prefetch(16)


def bare_decode_kept_in(pictures, split, options):
    """The same, of which a pixel each leaves tf.data, in batches."""
    return bare_decode(pictures, split, options, kept_in=True)


def tf_models_official(pictures, split, options):
    """Its classification decoder and parser, in its order: read, shuffle, parse and decode, batch, prefetch."""
    import tensorflow as tf
    from official.vision.dataloaders import classification_input

    decoder = classification_input.Decoder()
    parser = classification_input.Parser([options.image_size] * 2, len(pictures)).parse_fn(is_training=True)
    records = tf.data.Dataset.from_tensor_slices(list(split.files)).interleave(
        tf.data.TFRecordDataset, cycle_length=options.files, num_parallel_calls=options.threads
    )
    examples = records.repeat().shuffle(1024).map(decoder.decode, num_parallel_calls=options.threads)
    examples = examples.map(parser, num_parallel_calls=options.threads)
    return examples.batch(options.batch_size, drop_remainder=True).prefetch(2)


def ours(pictures, split, options, reduced_decoding=False):
    """The project's training batches."""
    import tensorflow as tf

    from tfbigbatch.data.image_manifest import Manifest
    from tfbigbatch.data.image_records import ImageRecords

    manifest = Manifest(tuple(map(str, range(len(pictures)))), "image/encoded", "image/class/label", 1, {})
    images = ImageRecords(
        split,
        manifest,
        image_size=options.image_size,
        shuffle_window=1024,
        threads=options.threads,
        reduced_decoding=reduced_decoding,
    )
    return images.training_batches(
        tf.distribute.InputContext(1, 0, 1), batch_size=options.batch_size, seed=0, first_step=0, last_step=1_000_000
    )


def ours_reduced(pictures, split, options):
    """The same, with reduced decoding."""
    return ours(pictures, split, options, reduced_decoding=True)


CONTENDERS = {
    "bare_decode": bare_decode,
    "bare_decode_kept_in": bare_decode_kept_in,
    "tf_models_official": tf_models_official,
    "tfbigbatch": ours,
    "tfbigbatch_reduced": ours_reduced,
}


def speed(elements, in_batch, options):
    """Images a second over the timed batches, of `in_batch` elements each, after those that fill the buffers."""
    iterator = iter(elements)
    for _ in range(_UNTIMED * in_batch):
        next(iterator)
    started = time.perf_counter()
    for _ in range(options.batches * in_batch):
        next(iterator)
    return options.batches * options.batch_size / (time.perf_counter() - started)


def _main(unused):
    from tfbigbatch.training.run_directory import versions, write_json

    options = flags.FLAGS
    paths = [
        path
        for path in sorted(glob.glob(os.path.join(options.source, "**"), recursive=True))
        if path.lower().endswith((".jpg", ".jpeg"))
    ]
    if not paths:
        raise InputError(f"--source={options.source} holds no JPEG. Give a folder of .jpg or .jpeg files.")
    pictures = []
    for path in paths:
        with open(path, "rb") as file:
            pictures.append(file.read())
    names = options.only or list(CONTENDERS)
    with tempfile.TemporaryDirectory() as folder:
        split = write_records(pictures, folder, options.records, options.files)
        speeds = {name: [] for name in names}
        for turn in range(options.turns):
            for name in names:
                in_batch = options.batch_size if name == "bare_decode" else 1
                speeds[name].append(speed(CONTENDERS[name](pictures, split, options), in_batch, options))
            print(f"turn {turn + 1}: " + ", ".join(f"{name} {speeds[name][-1]:,.0f}" for name in names), flush=True)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name, median in medians.items():
        print(f"{name:20s} {median:>7,.0f} images a second")
    if options.results:
        setting = {name: options[name].value for name in ("records", "image_size", "batch_size", "threads", "turns")}
        write_json(options.results, {"setting": setting, "median": medians, "turns": speeds, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
