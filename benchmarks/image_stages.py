"""Where the image pipeline's processor time goes: the pipeline with one more stage at a time, down to whole batches.

    python benchmarks/image_stages.py --source=FOLDER_OF_JPEGS --records=512 --files=4 --batch_size=128 --batches=8 \\
      --results=results/throughput/image_stages.json

The pipelines take turns in one process. A stage's figure is the median over turns of what it adds to the pipeline
before it, in microseconds of processor time a picture, over all threads. A turn is timed from rest to rest: once all
buffers are full again, so the figure is that of just as many pictures. Beside them, so timed: the pipeline with
OpenCV's resize, and images.py's bare decode and tf-models-official, with its flags.
"""

import contextlib
import os
import statistics
import tempfile
import time

import images
import pictures
from absl import flags

from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

_WINDOW = 1024
_GROUP = 16
_UNTIMED = 2
_BESIDE = ("tfbigbatch_opencv", "bare_decode_kept_in", "tf_models_official")
# Seconds between two looks at the threads, and how many in a row have to find them idle.
_PAUSE, _RESTING = 0.02, 4


def _crop(upto, options):
    """A function of a JPEG and its seed that does the work of the stages up to one, and returns what it made."""
    import tensorflow as tf

    from tfbigbatch.data.images import jpeg

    stages = list(_OF_CROPS)[: list(_OF_CROPS).index(upto) + 1]

    def crop(encoded, seed):
        begin, size = jpeg.random_window(encoded, seed, min_area=0.08)
        if upto == "draw a crop":
            return begin[0] + size[0]
        window = tf.concat([begin, size], axis=0)
        image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_FAST")
        if "resize" in stages:
            shape = [options.image_size] * 2
            image = tf.raw_ops.ResizeBilinear(images=image[None], size=shape, half_pixel_centers=True)[0]
        if "round to uint8" in stages:
            image = tf.cast(image + 0.5, tf.uint8)
        if "flip" in stages:
            flip = tf.random.stateless_uniform([], seed + 1, maxval=2, dtype=tf.int32) == 1
            pixels = image
            image = tf.cond(flip, lambda: tf.reverse(pixels, [1]), lambda: pixels)
        return image if "stack" in stages else tf.cast(image[0, 0, 0], tf.int32)

    return crop


# What each stage adds to that before it.
_OF_RECORDS = {
    "read": "records from their files, with their checksums, in the order of the files",
    "shuffle": "a window of records in its shuffled order",
    "group": "groups of 16 records, a parallel call for each, and batches of what it returns",
    "parse": "the JPEG and the label of each record",
}
_OF_CROPS = {
    "draw a crop": "the JPEG's header, and a window; a loop over the group",
    "decode": "the window",
    "resize": "bilinear, from uint8 to float32",
    "round to uint8": "add a half and cast",
    "flip": "draw whether, and mirror",
    "stack": "the images of a group in one tensor",
}
_OF_BATCHES = {
    "skip errors": "set apart the records that fail: a dataset in each call",
    "batch": "images of groups into batches, weights",
}


def stages(split, jpegs, options):
    """The datasets, by the last stage of each: elements of `batch_size` pictures."""
    import tensorflow as tf

    from tfbigbatch.data.records import reader, skip_bad
    from tfbigbatch.data.records.order import HostSlice, RecordOrder

    files = reader.RecordReader(split.files, split.counts, split.offsets)
    order = RecordOrder(files.chunks, HostSlice(options.batch_size, 1, 0), 0, _WINDOW)

    def in_pool(dataset):
        settings = tf.data.Options()
        settings.threading.private_threadpool_size = options.threads
        settings.threading.max_intra_op_parallelism = 1
        settings.deterministic = True
        return dataset.prefetch(2).with_options(settings)

    def grouped(of_group):
        records = reader.shuffled_records(files, order, 0).map(
            lambda records, numbers, epoch: (
                records,
                numbers,
                tf.stack([tf.zeros_like(numbers), epoch * split.examples + numbers], axis=-1),
            )
        )
        groups = records.rebatch(_GROUP, drop_remainder=True)
        mapped = groups.map(of_group, num_parallel_calls=options.threads, deterministic=True)
        return in_pool(mapped.batch(options.batch_size // _GROUP, drop_remainder=True))

    def parsed(records):
        features = {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        }
        found = tf.io.parse_example(records, features)
        return found["image/encoded"], tf.cast(found["image/class/label"], tf.int32)

    image = tf.TensorSpec([options.image_size] * 2 + [3], tf.uint8)

    def cropped(upto):
        crop, whole = _crop(upto, options), upto == "stack"

        def of_records(records, seeds):
            encoded, labels = parsed(records)
            signature = image if whole else tf.TensorSpec([], tf.int32)
            return tf.map_fn(lambda one: crop(*one), (encoded, seeds), fn_output_signature=signature), labels

        return of_records

    def small(made, labels):
        # Enough of a group to show that it is made.
        return labels + (tf.cast(made[:, 0, 0, 0], tf.int32) if made.shape.rank == 4 else made)

    def skipping_errors(records, numbers, seeds):
        return small(*skip_bad.map_records(cropped("stack"), records, numbers, (seeds,), lambda bad: None))

    in_order = reader.records_in_order(files, HostSlice(split.examples, 1, 0), 1).repeat()
    shuffled = reader.shuffled_records(files, order, 0)
    found = {
        "read": in_pool(in_order.map(lambda records, numbers: numbers).rebatch(options.batch_size)),
        "shuffle": in_pool(shuffled.map(lambda records, numbers, epoch: numbers).rebatch(options.batch_size)),
        "group": grouped(lambda records, numbers, seeds: numbers),
        "parse": grouped(lambda records, numbers, seeds: tf.strings.length(parsed(records)[0])),
    }
    for name in _OF_CROPS:
        of_records = cropped(name)
        found[name] = grouped(lambda records, numbers, seeds, made=of_records: small(*made(records, seeds)))
    return found | {"skip errors": grouped(skipping_errors), "batch": images.ours(jpegs, split, options)}


def _working():
    """Whether a thread of this process other than the main one runs, or waits for a core."""
    for thread in os.listdir("/proc/self/task"):
        if int(thread) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/stat", encoding="utf-8") as file:
                # The state follows the name, which is in brackets.
                if file.read().rpartition(")")[2].split()[0] in "RD":
                    return True
    return False


def _at_rest():
    """Waits until no thread of this process works; the process's time so far, in seconds."""
    quiet = 0
    while quiet < _RESTING:
        time.sleep(_PAUSE)
        quiet = 0 if _working() else quiet + 1
    return time.process_time()


def microseconds(iterators, options):
    """Microseconds of processor time a picture, of each iterator and turn."""
    found = {name: [] for name in iterators}
    for iterator in iterators.values():
        for _ in range(_UNTIMED):
            next(iterator)
    for turn in range(options.turns):
        for name, iterator in iterators.items():
            started = _at_rest()
            for _ in range(options.batches):
                next(iterator)
            worked = _at_rest() - started
            found[name].append(1e6 * worked / (options.batches * options.batch_size))
        print(f"turn {turn + 1} of {options.turns}", flush=True)
    return found


def report(turns, names, options):
    """Prints the figures of the stages `names` and of those beside them, and writes them where asked to."""
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    added, before = {}, [0.0] * options.turns
    for name in names:
        added[name] = statistics.median(now - then for now, then in zip(turns[name], before, strict=True))
        before = turns[name]
    what = _OF_RECORDS | _OF_CROPS | _OF_BATCHES
    whole = {name: statistics.median(turns[name]) for name in turns}
    print(f"{'':20s} {'so far':>8s} {'added':>8s} us a picture")
    for name in names:
        share = added[name] / whole["batch"]
        print(f"{name:20s} {whole[name]:8.0f} {added[name]:8.0f} {share:5.0%}  {what[name]}")
    for name in _BESIDE:
        print(f"{name:20s} {whole[name]:8.0f}", flush=True)
    if options.results:
        setting = {
            name: options[name].value
            for name in ("records", "files", "image_size", "batch_size", "threads", "turns", "batches")
        }
        figures = {"microseconds": whole, "added": added, "turns": turns}
        write_json(options.results, {"setting": setting, **figures, "versions": versions()})
        print(f"results      {options.results}", flush=True)


def _main(unused):
    options = flags.FLAGS
    pictures_in_turn, window = options.batches * options.batch_size, min(_WINDOW, options.records)
    if pictures_in_turn % window or options.batch_size % _GROUP:
        raise InputError(
            f"--batches={options.batches} of --batch_size={options.batch_size}: expected whole windows of {window} "
            f"records and whole groups of {_GROUP}."
        )
    jpegs = pictures.read(options.source)
    with tempfile.TemporaryDirectory() as folder:
        split = images.write_records(jpegs, folder, options.records, options.files)
        pipelines = stages(split, jpegs, options)
        names = list(pipelines)
        for name in _BESIDE:
            pipelines[name] = images.BASELINES[name](jpegs, split, options)
        iterators = {name: iter(dataset) for name, dataset in pipelines.items()}
        # Before the iterators end: some need long for it.
        report(microseconds(iterators, options), names, options)


if __name__ == "__main__":
    command.execute(_main)
