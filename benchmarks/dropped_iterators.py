"""How long an iterator that is dropped holds up the run, as it is after each evaluation: TensorFlow's way and ours.

    python benchmarks/dropped_iterators.py --seconds=3
    python benchmarks/dropped_iterators.py --seconds=3 --replicas=4

A data set of small batches, distributed to one CPU or to logical ones, is read for so long and then let go.
"""

import gc
import statistics
import time

from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_float("seconds", 3.0, "For which each iterator is read.", lower_bound=0.1)
flags.DEFINE_integer("replicas", 1, "Logical CPUs; 1: OneDeviceStrategy.", lower_bound=1)
flags.DEFINE_integer("repeats", 5, "Iterators of each kind, which take turns.", lower_bound=1)


def _main(unused):
    import tensorflow as tf

    from tfbigbatch.training import input_pipelines
    from tfbigbatch.training import strategy as strategies

    options = flags.FLAGS
    if options.replicas > 1:
        strategy, _ = strategies.choose(simulated_replicas=options.replicas)
    else:
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")

    def batches(context):
        del context
        counted = tf.data.Dataset.range(2**40)
        return counted.map(lambda number: tf.fill([32], number), num_parallel_calls=2).prefetch(2)

    kinds = {
        "TensorFlow's": lambda: strategy.distribute_datasets_from_function(batches),
        "tfbigbatch's": lambda: input_pipelines.distribute(strategy, batches),
    }
    held_up = {kind: [] for kind in kinds}
    for _ in range(options.repeats):
        for kind, make in kinds.items():
            held_up[kind].append(_held_up(iter(make()), options.seconds))
            print(f"{kind}  {held_up[kind][-1]:.2f} s", flush=True)
    for kind, seconds in held_up.items():
        print(f"{kind}  median {statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f}")


def _held_up(iterator, seconds):
    # What was there before is not looked at again when the iterator is let go.
    gc.collect()
    gc.freeze()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        next(iterator)
    dropped = time.monotonic()
    del iterator
    gc.collect()
    return time.monotonic() - dropped


if __name__ == "__main__":
    command.execute(_main)
