"""Times the image pipeline beside a bare decode of the same bytes, and beside tf-models-official's.

    python benchmarks/images.py --source=FOLDER_OF_JPEGS --results=results/throughput/images.json

The JPEGs are repeated to a few thousand records. The baselines take turns in one process; a figure is the
median of all turns. Bare decode: parse the header, draw a crop, `decode_and_crop_jpeg`, nothing more, of
bytes in memory; once with each crop handed to a Python loop, once with nothing let out of tf.data. All others
end in batches of images of one size. At last, the seconds to the first batch of a run that begins, and of one
that is resumed in mid-epoch.
"""

import os
import statistics
import tempfile
import time

import pictures
from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_string("source", None, "A folder of JPEGs, at any depth.", required=True)
flags.DEFINE_integer("records", 4000, "The JPEGs are repeated to this many.", lower_bound=1)
flags.DEFINE_integer("files", 8, "TFRecord files that they are written to.", lower_bound=1)
flags.DEFINE_integer("image_size", 224, "Pixels of a side.", lower_bound=1)
flags.DEFINE_integer("batch_size", 256, "Images in a batch.", lower_bound=1)
flags.DEFINE_integer("threads", os.cpu_count(), "Of each baseline.", lower_bound=1)
flags.DEFINE_integer("turns", 5, "Turns of each baseline.", lower_bound=1)
flags.DEFINE_integer("batches", 12, "Timed batches in a turn, after two that are not.", lower_bound=1)
flags.DEFINE_list("only", [], "These baselines alone.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

_UNTIMED = 2


def write_records(jpegs, folder, records, files):
    """An `image_manifest.Split` of the JPEGs, repeated to `records` records in `files` files."""
    from tfbigbatch.data.images.manifest import Split
    from tfbigbatch.data.records import index, tfrecord

    paths = [os.path.join(folder, f"train-{file:05d}") for file in range(files)]
    for first, path in enumerate(paths):
        with open(path, "wb") as file:
            for number in range(first, records, files):
                picture = number % len(jpegs)
                features = {"image/encoded": jpegs[picture], "image/class/label": picture + 1}
                file.write(tfrecord.framed(tfrecord.example(features)))
    offsets = [index.offsets(path) for path in paths]
    return Split.of_files("train", paths, offsets, [os.path.getsize(path) for path in paths])


def bare_decode(jpegs, split, options, kept_in=False):
    """Random crops of JPEGs in memory, decoded and no more, one by one."""
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
    repeated = tf.data.Dataset.from_tensor_slices(jpegs).repeat()
    crops = tf.data.Dataset.zip(repeated, numbers).map(crop, num_parallel_calls=options.threads)
    return crops.map(lambda image: image[0, 0]).batch(options.batch_size) if kept_in else crops.prefetch(16)


def bare_decode_kept_in(jpegs, split, options):
    """The same, of which a pixel each leaves tf.data, in batches."""
    return bare_decode(jpegs, split, options, kept_in=True)


def tf_models_official(jpegs, split, options):
    """Its classification decoder and parser, in its order: read, shuffle, parse and decode, batch, prefetch."""
    import tensorflow as tf
    from official.vision.dataloaders import classification_input

    decoder = classification_input.Decoder()
    parser = classification_input.Parser([options.image_size] * 2, len(jpegs)).parse_fn(is_training=True)
    records = tf.data.Dataset.from_tensor_slices(list(split.files)).interleave(
        tf.data.TFRecordDataset, cycle_length=options.files, num_parallel_calls=options.threads
    )
    examples = records.repeat().shuffle(1024).map(decoder.decode, num_parallel_calls=options.threads)
    examples = examples.map(parser, num_parallel_calls=options.threads)
    return examples.batch(options.batch_size, drop_remainder=True).prefetch(2)


def ours(jpegs, split, options, first_step=0, **settings):
    """The project's training batches; settings as of `ImageRecords`."""
    import tensorflow as tf

    from tfbigbatch.data.images.dataset import ImageRecords
    from tfbigbatch.data.images.manifest import Manifest

    manifest = Manifest(tuple(map(str, range(len(jpegs)))), "image/encoded", "image/class/label", 1, {})
    images = ImageRecords(
        split,
        manifest,
        image_size=options.image_size,
        shuffle_window=1024,
        threads=options.threads,
        **settings,
    )
    return images.training_batches(
        tf.distribute.InputContext(1, 0, 1),
        batch_size=options.batch_size,
        seed=0,
        first_step=first_step,
        last_step=1_000_000,
    )


def ours_reduced(jpegs, split, options):
    """The same, with reduced decoding."""
    return ours(jpegs, split, options, reduced_decoding=True)


def ours_opencv(jpegs, split, options):
    """The same, resized by OpenCV."""
    return ours(jpegs, split, options, resizer="opencv")


BASELINES = {
    "bare_decode": bare_decode,
    "bare_decode_kept_in": bare_decode_kept_in,
    "tf_models_official": tf_models_official,
    "tfbigbatch": ours,
    "tfbigbatch_reduced": ours_reduced,
    "tfbigbatch_opencv": ours_opencv,
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


def seconds_to_first_batch(jpegs, split, options):
    """Of a run's start and of a resume in mid-epoch: each the median of as many turns as the speeds."""
    steps = {"start": 0, "middle_of_epoch": options.records // options.batch_size // 2}
    seconds = {name: [] for name in steps}
    for _ in range(options.turns):
        for name, step in steps.items():
            started = time.perf_counter()
            next(iter(ours(jpegs, split, options, first_step=step)))
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def _main(unused):
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    jpegs = pictures.read(options.source)
    names = options.only or list(BASELINES)
    with tempfile.TemporaryDirectory() as folder:
        split = write_records(jpegs, folder, options.records, options.files)
        speeds = {name: [] for name in names}
        for turn in range(options.turns):
            for name in names:
                in_batch = options.batch_size if name == "bare_decode" else 1
                speeds[name].append(speed(BASELINES[name](jpegs, split, options), in_batch, options))
            print(f"turn {turn + 1}: " + ", ".join(f"{name} {speeds[name][-1]:,.0f}" for name in names), flush=True)
        first_batch = seconds_to_first_batch(jpegs, split, options)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name, median in medians.items():
        print(f"{name:20s} {median:>7,.0f} images a second")
    for name, seconds in first_batch.items():
        print(f"{name:20s} {seconds:7.2f} s to the first batch")
    if options.results:
        setting = {name: options[name].value for name in ("records", "image_size", "batch_size", "threads", "turns")}
        figures = {"median": medians, "turns": speeds, "seconds_to_first_batch": first_batch}
        write_json(options.results, {"setting": setting, **figures, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
