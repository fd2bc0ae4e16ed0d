"""What a host of 2,048 replicas does beside input and steps: the plan, rows of metrics, the status, the buckets.

    python benchmarks/bookkeeping.py --results=results/throughput/bookkeeping.json

Processor time through the package's own classes, medians; a share is of a step of 100 ms. Translations of one length
are batched together: every host sorts the pairs of all hosts, here as many as the English-French ones of WMT14.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy as np
import results_file
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.utils import command

REPLICAS = 2_048
STEP_SECONDS = 0.1
PAIRS = 36_000_000
BUCKETS = 8
BLOCK = 50
BATCH_SIZES = (4_096, 32_768)
SCALARS = 20

flags.DEFINE_integer("repeats", 9, "Calls of each, after one that is not counted.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def seconds_of(call, repeats):
    """Median processor seconds of a call."""
    call()
    seconds = []
    for _ in range(repeats):
        used = time.process_time()
        call()
        seconds.append(time.process_time() - used)
    return statistics.median(seconds)


def once_in_a_run(repeats):
    """{what: seconds} of what a run does at its start."""
    from tfbigbatch.training.plan import plan_of

    config = experiment.load("imagenet/resnet50_lars")
    return {"plan": seconds_of(lambda: plan_of(config, 1_281_167, REPLICAS), repeats)}


def at_each_row(repeats):
    """{what: seconds} of what the chief does at a row of metrics."""
    from tfbigbatch.runs.run_directory import RUNNING, RunDirectory
    from tfbigbatch.training.metrics_log import MetricsLog

    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(folder)
        log, scalars = MetricsLog(directory), {f"scalar_{index}": 0.1 * index for index in range(SCALARS)}
        return {
            f"row of {SCALARS} scalars": seconds_of(lambda: log.write("train", 1, scalars), repeats),
            "status.json": seconds_of(
                lambda: directory.write_status(RUNNING, step=1, total_steps=100, seconds=1.0, metrics=scalars), repeats
            ),
        }


def buckets(repeats):
    """Rows of the order of translations: seconds of a global batch, and of the first block after a resume."""
    from tfbigbatch.data.translation.bucket_order import BucketOrder

    bucket_of_pair = np.random.RandomState(0).randint(0, BUCKETS, PAIRS).astype(np.int32)
    rows = []
    for batch_size in BATCH_SIZES:
        order = BucketOrder(bucket_of_pair, batch_size, seed=1, block=BLOCK)
        steps = PAIRS // batch_size
        begun = time.perf_counter()
        blocks = iter(order.runs(steps // 3))
        next(blocks)
        resumed = time.perf_counter() - begun
        sizes = []
        seconds = seconds_of(lambda blocks=blocks, sizes=sizes: sizes.append(len(next(blocks))), repeats)
        of_batch = seconds * batch_size / statistics.median(sizes)
        rows.append({"batch_size": batch_size, "resume": resumed, "batch": of_batch, "share": of_batch / STEP_SECONDS})
    return rows


def _main(unused):
    results_file.check(flags.FLAGS.results)
    repeats = flags.FLAGS.repeats
    start, row, order = once_in_a_run(repeats), at_each_row(repeats), buckets(min(repeats, 5))
    print("| what | CPU ms | when | share of a step of 100 ms |\n|---|---:|---|---:|")
    for name, seconds in start.items():
        print(f"| {name} | {1e3 * seconds:.2f} | once in a run | |")
    for name, seconds in row.items():
        print(f"| {name} | {1e3 * seconds:.2f} | every `log_every` | {seconds / STEP_SECONDS:.2%} |")
    for each in order:
        print(
            f"| order of {PAIRS:,} pairs, batch {each['batch_size']:,} | {1e3 * each['batch']:.2f} | every step | "
            f"{each['share']:.2%} |"
        )
    print("\nresumed: " + ", ".join(f"{each['resume']:.1f} s at {each['batch_size']:,}" for each in order))
    results_file.write(flags.FLAGS.results, os.path.basename(__file__), sys.argv[1:], start=start, row=row, order=order)


if __name__ == "__main__":
    command.execute(_main)
