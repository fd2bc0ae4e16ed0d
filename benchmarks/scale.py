"""What one host's input costs at ImageNet-21k's and C4's numbers of records: memory, the start, the resume, the order.

    python benchmarks/scale.py --results=results/throughput/scale.json
    python benchmarks/scale.py --package=FOLDER --data=imagenet_21k      # of another checkout

The prepared folders are made up, and their indexes are whole: an offset of each record, 114 MB and 2.9 GB. The records
are small, and all shards of a size are one file under many names, so that 9 MB hold them. Everything is read through
the package's own classes. Each row is a process of its own; memory is its peak above what TensorFlow itself took.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import results_file
from absl import flags

from tfbigbatch.utils import command

# Records, shards, and examples in a global batch.
SETS = {"imagenet_1k": (1_281_167, 1024), "imagenet_21k": (14_197_122, 10_240), "c4": (365_000_000, 1024)}
BATCH_SIZE = 32_768
REPLICAS_OF_HOST = 8
# Of one host alone, and the last of 256 with 2,048 replicas.
HOSTS = {"1": (1, 0), "256": (256, 255)}
STEP_SECONDS = 0.1
_FRAME_BYTES = 16
_KINDS = {"imagenet_1k": "images", "imagenet_21k": "images", "c4": "bert"}


def prepare(name, folder):
    """A prepared folder of the set's number of records, in shards that differ by one record at most."""
    import numpy as np

    records, shards = SETS[name]
    content, save = _content_of[_KINDS[name]]()
    counts = np.full(shards, records // shards, np.int64)
    counts[: records % shards] += 1
    save(folder)
    frame = _FRAME_BYTES + len(content)
    for count in np.unique(counts):
        _write_file(os.path.join(folder, f"{count}.tfrecord"), content, int(count))
    names = [f"train-{shard:05d}-of-{shards:05d}" for shard in range(shards)]
    for shard, count in zip(names, counts):
        os.symlink(f"{count}.tfrecord", os.path.join(folder, shard))
    digest = hashlib.sha256()
    with open(os.path.join(folder, "train.index.npy"), "wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (records,)}
        np.lib.format.write_array_header_1_0(file, header)
        for count in counts:
            offsets = (frame * np.arange(count)).tobytes()
            file.write(offsets)
            digest.update(offsets)
    path = os.path.join(folder, "manifest.json")
    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    files = [
        {"name": shard, "records": int(count), "bytes": int(count) * frame, "sha256": 64 * "0"}
        for shard, count in zip(names, counts)
    ]
    manifest["splits"] = {"train": {"examples": records, "index_sha256": digest.hexdigest(), "files": files}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)


def _images():
    import numpy as np
    import tensorflow as tf

    from tfbigbatch.data.images import manifest as image_manifest
    from tfbigbatch.data.images.manifest import Manifest

    features = {
        "image": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(np.zeros([8, 8, 3], np.uint8)).numpy()])
        ),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[3])),
    }
    content = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    manifest = Manifest(tuple(map(str, range(10))), "image", "label", 0, {})
    return content, lambda folder: image_manifest.save(folder, manifest)


def _bert():
    import dataclasses

    import tensorflow as tf

    from tfbigbatch.data.bert import fake
    from tfbigbatch.data.bert import manifest as bert_manifest

    with tempfile.TemporaryDirectory() as folder:
        manifest = fake.pretraining(folder, max_seq_length=16, next_sentence=False)
        content = next(iter(tf.data.TFRecordDataset(manifest.splits["train"].files[:1]))).numpy()
    return content, lambda folder: bert_manifest.save(folder, dataclasses.replace(manifest, splits={}))


_content_of = {"images": _images, "bert": _bert}


def _write_file(path, content, count):
    from tfbigbatch.data.records import tfrecord

    with open(path, "wb") as file:
        file.write(tfrecord.framed(content) * count)


def measure(name, folder, hosts, host):
    """The figures of one process; in its words, JSON."""
    import tensorflow as tf

    from tfbigbatch.data.bert import manifest as bert_manifest
    from tfbigbatch.data.bert.dataset import BertRecords
    from tfbigbatch.data.images import manifest as image_manifest
    from tfbigbatch.data.images.dataset import ImageRecords
    from tfbigbatch.data.records import order, reader

    context = tf.distribute.InputContext(hosts, host, hosts * REPLICAS_OF_HOST)
    # TensorFlow starts its threads with the first dataset.
    next(iter(tf.data.Dataset.range(3).map(lambda number: number + 1, num_parallel_calls=2).prefetch(1)))
    _forget_peak()
    before = _resident("VmRSS")

    started = time.perf_counter()
    if _KINDS[name] == "images":
        manifest = image_manifest.load(folder)
        train = ImageRecords(manifest.splits["train"], manifest, image_size=8)
    else:
        manifest = bert_manifest.load(folder)
        train = BertRecords(manifest.splits["train"], manifest)
    found = {"load": time.perf_counter() - started}
    steps_in_epoch = len(train) // BATCH_SIZE
    for what, first in (("first batch", 0), ("resume", steps_in_epoch * 5 // 2)):
        begun, used = time.perf_counter(), time.process_time()
        batches = iter(
            train.training_batches(
                context, batch_size=BATCH_SIZE, seed=1, first_step=first, last_step=first + steps_in_epoch
            )
        )
        next(batches)
        # With what a run does before it.
        found[what] = time.perf_counter() - begun + found["load"]
        found[f"{what}, CPU s"] = time.process_time() - used
        del batches
    found["peak MB"] = (_resident("VmHWM") - before) / 1024

    order_of = reader.shuffled_records
    numbers = _Numbers(train._reader.chunks)
    window = train._shuffle_window
    own = order.RecordOrder(numbers.chunks, order.HostSlice(BATCH_SIZE, hosts, host), 1, window)
    runs = iter(order_of(numbers, own, steps_in_epoch // 3))
    next(runs)
    seconds, records = [], 0
    for _ in range(10):
        used = time.process_time()
        records = len(next(runs)[1])
        seconds.append(time.process_time() - used)
    found["order, CPU s per million records"] = statistics.median(seconds) / records * 1e6
    a_step = statistics.median(seconds) / records * (BATCH_SIZE // hosts)
    if hosts > 1:
        found["order, share of a step"] = a_step / STEP_SECONDS
    print(json.dumps(found))


class _Numbers:
    """A RecordReader that reads nothing."""

    def __init__(self, chunks):
        self.chunks = chunks

    def records(self, pieces):
        import tensorflow as tf

        return tf.data.Dataset.from_tensor_slices(pieces).map(
            lambda first, size: (tf.fill([size], ""), first + tf.range(size))
        )


def _forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _resident(name):
    """VmRSS or VmHWM, in KB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:"))


def _main(unused):
    options = flags.FLAGS
    if options.measure:
        name, folder, hosts = options.measure
        return measure(name, folder, *HOSTS[hosts])
    results_file.check(options.results)
    rows = []
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(options.package)}
    for name in options.data:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            prepare(name, folder)
            for hosts in HOSTS:
                turns = []
                for _ in range(options.turns):
                    done = subprocess.run(
                        [sys.executable, os.path.abspath(__file__), f"--measure={name},{folder},{hosts}"],
                        env=environment,
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    )
                    turns.append(json.loads(done.stdout.splitlines()[-1]))
                figures = {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
                rows.append({"data": name, "records": SETS[name][0], "hosts": int(hosts), **figures})
                shown = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
                print(f"{name}, host of {hosts}: {shown}", flush=True)
    results_file.write(options.results, "scale.py", sys.argv[1:], rows=rows)


if __name__ == "__main__":
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags.DEFINE_list("data", list(SETS), "The sets.")
    flags.DEFINE_string("package", here, "Folder that holds the package that is measured.")
    flags.DEFINE_integer("turns", 3, "Processes of each row; the figures are medians.", lower_bound=1)
    flags.DEFINE_string("scratch", None, "Folder for the prepared folders, of 3 GB; a temporary one where left out.")
    flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")
    flags.DEFINE_list("measure", None, "Set, prepared folder and hosts of one process; for this command itself.")
    command.execute(_main)
