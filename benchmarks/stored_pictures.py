"""What `prepare-imagenet --max_side --quality` does to bytes, decoding, pixels and the speed of the pipeline.

    python benchmarks/stored_pictures.py --source=FOLDER_OF_JPEGS --records=1000 --batches=4 \\
      --results=results/throughput/stored_pictures.json

The originals and each stored size take turns in one process; a figure is the median of all turns. Speeds as in
images.py, with its flags: our batches, and the bare decode of random crops of the same stored bytes, nothing let out of
tf.data; and tf-models-official's batches, of the originals. Pixels: the same crops, by their share of the picture,
against those of the originals, as peak signal-to-noise ratio over all crops.

Speeds are images a second of the clock, and of processor time over all threads, which other programs disturb less. A
turn has to take whole windows of the shuffle, 1,024 records or all of them, to count what they cost.
"""

import gc
import math
import os
import statistics
import tempfile
import time

import images
import pictures
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

flags.DEFINE_list("stored", ["400:90", "320:90", "320:75", "256:90"], "Stored sizes, each MAX_SIDE:QUALITY.")
flags.DEFINE_integer("crops", 2, "Random crops to compare of each picture.", lower_bound=1)

_ORIGINALS = "originals"
_UNTIMED = 2
_OURS = ("tfbigbatch", "tfbigbatch_opencv")
_UNITS = ("images_per_second", "images_per_second_of_core")


def stored_sizes(names):
    """The StoredSize of each name."""
    from tfbigbatch.data.images.prepare.check import StoredSize

    found = {}
    for name in names:
        side, _, quality = name.partition(":")
        if not (side.isdecimal() and quality.isdecimal()):
            raise InputError(f"--stored={name}: expected MAX_SIDE:QUALITY, such as 320:90.")
        found[name] = StoredSize(int(side), int(quality))
    return found


def milliseconds_to_decode(sets, turns):
    """Processor time of decoding a whole picture, by set: medians over turns of the mean over its pictures."""
    import tensorflow as tf

    decode = tf.function(
        lambda encoded: tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_FAST"),
        input_signature=[tf.TensorSpec([], tf.string)],
    )
    tensors = {name: [tf.constant(jpeg) for jpeg in jpegs] for name, jpegs in sets.items()}
    found = {name: [] for name in sets}
    for _ in range(turns):
        for name, encoded in tensors.items():
            started = time.process_time()
            for one in encoded:
                decode(one)
            found[name].append(1000 * (time.process_time() - started) / len(encoded))
    return {name: statistics.median(values) for name, values in found.items()}


def pixels(sets, options):
    """Of each set: PSNR in dB of training and validation crops against those of the originals, over all crops.

    'moved' are the originals' training crops, one pixel of the original to the right: what such a number means.
    'averaged' compares with training crops of the originals that are resized by the mean of the area of each pixel.
    """
    import numpy as np
    import tensorflow as tf

    from tfbigbatch.data.images import jpeg

    side = options.image_size

    def crop(encoded, box, antialias=False):
        # Bilinear as the pipeline's, of a box in fractions of pixels.
        image = tf.cast(tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_FAST"), tf.float32)
        shape = tf.cast(tf.shape(image)[:2], tf.float32)
        begin, scale = box[:2] * shape, side / (box[2:] * shape)
        resized = tf.raw_ops.ScaleAndTranslate(
            images=image[None],
            size=[side, side],
            scale=scale,
            translation=-begin * scale,
            kernel_type="triangle",
            antialias=antialias,
        )
        return tf.round(resized[0])

    box_spec = tf.TensorSpec([4], tf.float32)
    plain = tf.function(crop, input_signature=[tf.TensorSpec([], tf.string), box_spec])
    averaged = tf.function(
        lambda encoded, box: crop(encoded, box, antialias=True),
        input_signature=[tf.TensorSpec([], tf.string), box_spec],
    )
    centre = tf.function(
        lambda encoded: jpeg.centre_crops(encoded[tf.newaxis], image_size=side)[0],
        input_signature=[tf.TensorSpec([], tf.string)],
    )
    errors = {name: {"training": [], "averaged": [], "validation": []} for name in [*sets, "moved"]}

    def error(one, other):
        return float(np.mean(np.square(np.subtract(one, other, dtype=np.float64))))

    for number, original in enumerate(sets[_ORIGINALS]):
        shape = tf.io.extract_jpeg_shape(original)[:2].numpy().astype(np.float64)
        validation = centre(original)
        for name, jpegs in sets.items():
            errors[name]["validation"].append(error(centre(jpegs[number]), validation))
        for seed in range(options.crops):
            begin, size = jpeg.random_window(original, tf.constant([seed, number], tf.int64), min_area=0.08)
            box = np.concatenate([begin / shape, size / shape]).astype(np.float32)
            training, area = plain(original, box), averaged(original, box)
            for name, jpegs in sets.items():
                found = plain(jpegs[number], box)
                errors[name]["training"].append(error(found, training))
                errors[name]["averaged"].append(error(found, area))
            moved = plain(original, box + np.array([0, 1 / shape[1], 0, 0], np.float32))
            errors["moved"]["training"].append(error(moved, training))
            errors["moved"]["averaged"].append(error(moved, area))

    def decibels(values):
        mean = statistics.mean(values) if values else 0.0
        return 10 * math.log10(255**2 / mean) if mean else None

    return {name: {kind: decibels(values) for kind, values in of.items()} for name, of in errors.items()}


def speed(elements, options):
    """(images a second, images a second of processor time) over the timed batches, once the buffers are full."""
    iterator = iter(elements)
    for _ in range(_UNTIMED):
        next(iterator)
    started, worked = time.perf_counter(), time.process_time()
    for _ in range(options.batches):
        next(iterator)
    count = options.batches * options.batch_size
    return count / (time.perf_counter() - started), count / (time.process_time() - worked)


def speeds(sets, folder, options):
    """`speed` of each turn, by set and pipeline."""
    pipelines = {}
    for number, (name, jpegs) in enumerate(sets.items()):
        place = os.path.join(folder, str(number))
        os.mkdir(place)
        split = images.write_records(jpegs, place, options.records, options.files)
        kinds = ["bare_decode_kept_in", *_OURS]
        for kind in kinds + ["tf_models_official"] * (name == _ORIGINALS):
            pipelines[name, kind] = images.BASELINES[kind](jpegs, split, options)
    found = {}
    for turn in range(options.turns):
        for (name, kind), elements in pipelines.items():
            found.setdefault(name, {}).setdefault(kind, []).append(speed(elements, options))
            # The iterator's threads end with it.
            gc.collect()
        print(f"turn {turn + 1} of {options.turns}", flush=True)
    return found


def _main(unused):
    from tfbigbatch.data.images.prepare import check
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    originals = pictures.read(options.source)
    sets = {_ORIGINALS: originals}
    for name, size in stored_sizes(options.stored).items():
        sets[name] = [check.check(jpeg, size).encoded for jpeg in originals]
    total = sum(map(len, originals))
    figures = {name: {"bytes": sum(map(len, jpegs)) / total} for name, jpegs in sets.items()}
    for name, value in milliseconds_to_decode(sets, options.turns).items():
        figures[name]["milliseconds_to_decode"] = value
    compared = pixels(sets, options)
    moved = compared.pop("moved")
    for name, values in compared.items():
        figures[name]["psnr"] = values
    with tempfile.TemporaryDirectory() as folder:
        turns = speeds(sets, folder, options)
    for unit, at in zip(_UNITS, range(2), strict=True):
        medians = {
            name: {kind: statistics.median(each[at] for each in values) for kind, values in kinds.items()}
            for name, kinds in turns.items()
        }
        official = medians[_ORIGINALS]["tf_models_official"]
        for name, values in medians.items():
            figures[name][unit] = {
                **values,
                "of_bare_decode": {ours: values[ours] / values["bare_decode_kept_in"] for ours in _OURS},
                "of_tf_models_official_on_originals": {ours: values[ours] / official for ours in _OURS},
            }
    for name, values in figures.items():
        print(f"{name:10s} {values['bytes']:5.0%} of the bytes, {values['milliseconds_to_decode']:5.2f} ms to decode")
        for unit in _UNITS:
            of = values[unit]
            for ours in _OURS:
                print(
                    f"  {ours:17s} {of[ours]:8,.0f} {unit}: {of['of_bare_decode'][ours]:.2f} of the bare decode, "
                    f"{of['of_tf_models_official_on_originals'][ours]:.2f} of tf-models-official"
                )
        print(f"  dB {values['psnr']}")
    print(f"moved by a pixel: dB {moved}")
    if options.results:
        names = ("records", "image_size", "batch_size", "threads", "turns", "batches", "crops")
        setting = {name: options[name].value for name in names}
        results = {"setting": setting, "figures": figures, "moved_by_a_pixel": moved, "turns": turns}
        write_json(options.results, {**results, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
