"""Other libraries' decoding and resizing of the same crops, and faster settings of TensorFlow's, beside the pipeline's.

    python benchmarks/image_decoders.py --source=FOLDER_OF_JPEGS --results=results/throughput/image_decoders.json

One thread. Each way makes a batch of all pictures, a random crop of each as training draws it, in turns, and right
after TensorFlow's as the pipeline calls it: milliseconds of processor time a picture, median over turns, and the ratio
to TensorFlow's, median over pairs. Pixels: the mean absolute difference of a channel from the pipeline's, of 255. A
library that is not installed is left out: opencv-python-headless, Pillow or Pillow-SIMD, simplejpeg, torchvision,
kornia-rs, nvidia-dali.
"""

import io
import statistics
import time

import numpy as np
import pictures
from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_string("source", None, "A folder of JPEGs, at any depth.", required=True)
flags.DEFINE_integer("image_size", 224, "Pixels of a side.", lower_bound=1)
flags.DEFINE_integer("turns", 5, "Turns of each way.", lower_bound=1)
flags.DEFINE_list("only", [], "These ways alone, and the pipeline's.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

_OURS = "TensorFlow, as the pipeline"


def tensorflow(jpegs, windows, side, resize=True, **settings):
    """A function without arguments that makes the batch in one loop of TensorFlow."""
    import tensorflow as tf

    settings = {"dct_method": "INTEGER_FAST", **settings}
    encoded, windows = tf.constant(jpegs), tf.constant(windows)

    def crop(one):
        image = tf.image.decode_and_crop_jpeg(one[0], one[1], channels=3, **settings)
        if not resize:
            return image[0, 0]
        resized = tf.raw_ops.ResizeBilinear(images=image[None], size=[side, side], half_pixel_centers=True)[0]
        return tf.cast(resized + 0.5, tf.uint8)

    signature = tf.TensorSpec([side, side, 3] if resize else [3], tf.uint8)
    batch = tf.function(
        lambda: tf.map_fn(crop, (encoded, windows), fn_output_signature=signature, parallel_iterations=1)
    )
    return lambda: batch().numpy()


def in_python(crop):
    """A way that makes one image at a time, by a function of (JPEG, window, side), into one array."""

    def way(jpegs, windows, side):
        def batch():
            made = np.empty([len(jpegs), side, side, 3], np.uint8)
            for number, (encoded, window) in enumerate(zip(jpegs, windows, strict=True)):
                made[number] = crop(encoded, window, side)
            return made

        return batch

    return way


def _part(image, window):
    top, left, height, width = window
    return image[top : top + height, left : left + width]


def opencv(encoded, window, side):
    """OpenCV's decoder of the whole picture, and its resize."""
    import cv2

    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION)
    return cv2.resize(_part(image, window), (side, side), interpolation=cv2.INTER_LINEAR)


def pillow(encoded, window, side):
    """Pillow's or Pillow-SIMD's, whichever is installed; its bilinear resize averages."""
    from PIL import Image

    top, left, height, width = map(int, window)
    with Image.open(io.BytesIO(encoded)) as image:
        box = left, top, left + width, top + height
        return np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR, box=box))


def simplejpeg(encoded, window, side, **settings):
    """libjpeg-turbo's decoder of the whole picture, and OpenCV's resize."""
    import cv2
    import simplejpeg

    image = simplejpeg.decode_jpeg(encoded, "RGB", fastdct=True, **settings)
    return cv2.resize(_part(image, window), (side, side), interpolation=cv2.INTER_LINEAR)


def torchvision(encoded, window, side):
    """torchvision's decoder of the whole picture, and its resize of uint8."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import functional

    image = decode_jpeg(torch.frombuffer(bytearray(encoded), dtype=torch.uint8), mode=ImageReadMode.RGB)
    top, left, height, width = map(int, window)
    resized = functional.resized_crop(image, top, left, height, width, [side, side], antialias=False)
    return resized.permute(1, 2, 0).numpy()


def kornia(encoded, window, side):
    """kornia-rs' decoder of the whole picture, and its resize."""
    import kornia_rs

    image = kornia_rs.io.decode_image_jpegturbo(encoded, "rgb")
    return kornia_rs.resize(np.ascontiguousarray(_part(image, window)), (side, side), "bilinear")


def tensorflow_and_opencv(jpegs, windows, side):
    """TensorFlow's decoder of the window, and OpenCV's resize."""
    import cv2
    import tensorflow as tf

    def crop(encoded, window, side):
        image = tf.raw_ops.DecodeAndCropJpeg(
            contents=encoded, crop_window=window, channels=3, dct_method="INTEGER_FAST"
        ).numpy()
        return cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR)

    return in_python(crop)(jpegs, windows, side)


def dali(jpegs, windows, side):
    """DALI's operators on the CPU: the window decoded, and resized bilinearly."""
    from nvidia import dali

    encoded = [np.frombuffer(jpeg, np.uint8) for jpeg in jpegs]
    begin, shape = np.asarray(windows, np.int32)[:, :2], np.asarray(windows, np.int32)[:, 2:]

    @dali.pipeline_def(batch_size=len(jpegs), num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
    def pipeline():
        pictures_of = dali.fn.external_source(lambda: encoded, dtype=dali.types.UINT8)
        begins = dali.fn.external_source(lambda: list(begin), dtype=dali.types.INT32)
        shapes = dali.fn.external_source(lambda: list(shape), dtype=dali.types.INT32)
        images = dali.fn.decoders.image_slice(pictures_of, begins, shapes, axes=(0, 1), device="cpu")
        return dali.fn.resize(images, size=[side, side], interp_type=dali.types.INTERP_LINEAR, antialias=False)

    built = pipeline()
    built.build()
    return lambda: built.run()[0].as_array()


# By the package that each imports, None for TensorFlow.
WAYS = {
    _OURS: (None, tensorflow),
    "the same, not resized": (None, lambda *batch: tensorflow(*batch, resize=False)),
    "dct_method=INTEGER_ACCURATE": (None, lambda *batch: tensorflow(*batch, dct_method="INTEGER_ACCURATE")),
    "fancy_upscaling=False": (None, lambda *batch: tensorflow(*batch, fancy_upscaling=False)),
    "TensorFlow, OpenCV's resize": ("cv2", tensorflow_and_opencv),
    "OpenCV": ("cv2", in_python(opencv)),
    "Pillow": ("PIL", in_python(pillow)),
    "simplejpeg, OpenCV's resize": ("simplejpeg", in_python(simplejpeg)),
    "the same, fastupsample": (
        "simplejpeg",
        in_python(lambda *crop: simplejpeg(*crop, fastupsample=True)),
    ),
    "torchvision": ("torchvision", in_python(torchvision)),
    "kornia-rs": ("kornia_rs", in_python(kornia)),
    "DALI": ("nvidia.dali", dali),
}


def one_thread():
    """Tells every library that is there to work on the thread that is timed."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if _version("cv2"):
        import cv2

        cv2.setNumThreads(1)
    if _version("torchvision"):
        import torch

        torch.set_num_threads(1)


def _version(package):
    """The version of an installed package; None where it cannot be imported."""
    import importlib

    try:
        return getattr(importlib.import_module(package), "__version__", "unknown")
    except ImportError:
        return None


def milliseconds(batch, count):
    """Processor time an image of making a batch of `count`."""
    started = time.process_time()
    batch()
    return 1000 * (time.process_time() - started) / count


def _main(unused):
    import tensorflow as tf

    from tfbigbatch.data.images import jpeg
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    one_thread()
    jpegs = pictures.read(options.source)
    windows = [
        tf.concat(jpeg.random_window(encoded, tf.constant([0, number], tf.int64), min_area=0.08), 0).numpy()
        for number, encoded in enumerate(jpegs)
    ]
    batches, used = {}, {}
    for name, (package, way) in WAYS.items():
        found = _version(package) if package else tf.__version__
        if found is None or (options.only and name not in (_OURS, *options.only)):
            continue
        used[name] = found
        batches[name] = way(jpegs, windows, options.image_size)
    made = {name: batch() for name, batch in batches.items()}
    differences = {
        name: float(np.abs(made[name].astype(np.int16) - made[_OURS]).mean())
        for name in made
        if made[name].shape == made[_OURS].shape
    }
    turns, pairs = {name: [] for name in batches}, {name: [] for name in batches}
    for _ in range(options.turns):
        for name, batch in batches.items():
            # The pipeline's before each, since what ran last leaves the caches in its own state.
            ours, other = (milliseconds(each, len(jpegs)) for each in (batches[_OURS], batch))
            turns[name].append(other)
            pairs[name].append(other / ours)
    figures = {}
    for name, values in turns.items():
        ratio = statistics.median(pairs[name])
        figures[name] = {"milliseconds": statistics.median(values), "of_the_pipeline": ratio, "version": used[name]}
        figures[name]["mean_absolute_difference"] = differences.get(name)
        pixels = f"{differences[name]:6.2f} of 255" if name in differences else ""
        print(f"{name:30s} {figures[name]['milliseconds']:6.2f} ms {ratio:6.2f} {pixels}  {used[name]}")
    if options.results:
        setting = {name: options[name].value for name in ("image_size", "turns")}
        write_json(options.results, {"setting": setting, "figures": figures, "pairs": pairs, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
