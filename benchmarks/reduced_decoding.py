"""What `data.reduced_decoding` does to pixels and to the time: the same random crops with it and without.

    python benchmarks/reduced_decoding.py --source=FOLDER_OF_JPEGS \\
      --results=results/throughput/reduced_decoding.json

For each size: the share of the crops that are at least twice as large and so decoded at a half or less; of those,
the mean absolute difference of a pixel's channel, of 255, between the two, and between each and the whole
crop averaged over the area of each pixel, which neither does; and the milliseconds of one core that a crop takes.
"""

import statistics
import time

import pictures
from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_string("source", None, "A folder of JPEGs, at any depth.", required=True)
flags.DEFINE_list("image_size", ["224", "128", "64"], "Pixels of a side.")
flags.DEFINE_integer("crops", 4, "Random crops of each picture.", lower_bound=1)
flags.DEFINE_integer("turns", 5, "Times that each crop is made both ways.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def compare(jpegs, image_size, options):
    """The figures of one size, by their names."""
    import numpy as np
    import tensorflow as tf

    from tfbigbatch.data.images import jpeg

    window = tf.TensorSpec([2], tf.int32)
    signature = [tf.TensorSpec([], tf.string), window, window]

    @tf.function(input_signature=signature)
    def whole(encoded, begin, size):
        return jpeg.resized_window(encoded, begin, size, image_size)

    @tf.function(input_signature=signature)
    def reduced(encoded, begin, size):
        return jpeg.resized_window(encoded, begin, size, image_size, reduced_decoding=True)

    @tf.function(input_signature=signature)
    def averaged(encoded, begin, size):
        pixels = tf.image.decode_and_crop_jpeg(encoded, tf.concat([begin, size], 0), channels=3)
        return tf.image.resize(pixels, [image_size, image_size], antialias=True)

    def milliseconds(crop, *arguments):
        started = time.process_time()
        crop(*arguments)
        return 1000 * (time.process_time() - started)

    def difference(one, other):
        return np.abs(np.subtract(one, other, dtype=np.float64)).mean()

    pairs = {"whole to reduced": [], "whole to averaged": [], "reduced to averaged": []}
    times = {"whole": [], "reduced": []}
    for number, encoded in enumerate(jpegs):
        for seed in range(options.crops):
            begin, size = jpeg.random_window(encoded, tf.constant([seed, number], tf.int64), min_area=0.08)
            # Where all ratios have the same window; else it shifts by less than a pixel of the reduced picture.
            begin, size = begin // 8 * 8, size // 8 * 8
            if min(size.numpy()) < 2 * image_size:
                continue
            crop = encoded, begin, size
            images = {"whole": whole(*crop), "reduced": reduced(*crop), "averaged": averaged(*crop)}
            for pair, values in pairs.items():
                one, _, other = pair.partition(" to ")
                values.append(difference(images[one], images[other]))
            for _ in range(options.turns):
                times["whole"].append(milliseconds(whole, *crop))
                times["reduced"].append(milliseconds(reduced, *crop))
    count = len(pairs["whole to reduced"])
    return {
        "image_size": image_size,
        "crops": len(jpegs) * options.crops,
        "reduced": count,
        "mean_absolute_difference": {pair: statistics.mean(values) for pair, values in pairs.items() if count},
        "milliseconds": {name: statistics.median(values) for name, values in times.items() if count},
    }


def _main(unused):
    import tensorflow as tf

    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    # All work on the thread that is timed.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    jpegs = pictures.read(options.source)
    sizes = []
    for image_size in command.numbers("image_size", options.image_size, int):
        sizes.append(compare(jpegs, image_size, options))
        figures = sizes[-1]
        print(f"{image_size} pixels: {figures['reduced']:,} of {figures['crops']:,} crops reduced")
        for pair, value in figures["mean_absolute_difference"].items():
            print(f"  {pair:20s} {value:6.2f} of 255")
        for name, value in figures["milliseconds"].items():
            print(f"  {name:20s} {value:6.2f} ms", flush=True)
    if options.results:
        write_json(options.results, {"sizes": sizes, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
