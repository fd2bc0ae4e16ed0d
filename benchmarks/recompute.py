"""What recomputation (`model.recompute`) saves in memory and costs in time: BERT, ResNet-50 and GNMT on this CPU.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/recompute.py --results=results/recompute.json

For each network two processes hold the same weights and batch, one with recomputation, and take turns: a step in one,
a step in the other. Printed are the medians of the seconds of a step (forward, backward and SGD), the median of the
ratio of two such steps, and by how much a process's largest memory is above what it had before its first step. With
--jit_compile the steps are XLA's. The losses of both are compared.
"""

import functools
import multiprocessing
import statistics
import sys
import time

import results_file
from absl import flags

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.utils import command

flags.DEFINE_list("networks", ["bert", "resnet50", "gnmt"], "Of bert, resnet50 and gnmt.")
flags.DEFINE_integer("repeats", 5, "Steps of each process that are timed.", lower_bound=1)
flags.DEFINE_integer("batch_size", None, "Examples of a step; by default each network's own.", lower_bound=1)
flags.DEFINE_bool("jit_compile", False, "Compile the steps with XLA.")
flags.DEFINE_string("results", None, "JSON file for the rows.")


def bert(recompute):
    """BERT of 4 layers and 256 units, at length 512."""
    import tensorflow as tf

    from tfbigbatch.models import bert

    sizes = {"vocabulary_size": 1000, "layers": 4, "hidden_units": 256, "heads": 4, "inner_units": 1024}

    def features(examples):
        words = tf.random.stateless_uniform([examples, 512], [0, 1], maxval=1000, dtype=tf.int32)
        return {
            "input_word_ids": words,
            "input_mask": tf.ones_like(words),
            "input_type_ids": tf.zeros_like(words),
            "masked_lm_positions": words[:, :76] % 512,
        }

    return bert.pretrainer(recompute=recompute, **sizes), features


def resnet50(recompute):
    """ResNet-50 at 160 pixels."""
    import tensorflow as tf

    from tfbigbatch.models import image_models

    def features(examples):
        shape = [examples, 160, 160, 3]
        return tf.cast(tf.random.stateless_uniform(shape, [0, 1], maxval=256, dtype=tf.int32), tf.uint8)

    return image_models.build("resnet50", image_size=160, classes=1000, recompute=recompute), features


def gnmt(recompute):
    """GNMT of 4 and 4 layers of 256 units, for 50 and 50 tokens."""
    import tensorflow as tf

    from tfbigbatch.models.gnmt import network

    def features(examples):
        words = tf.random.stateless_uniform([examples, 50], [0, 1], minval=1, maxval=1000, dtype=tf.int32)
        return {"source_ids": words, "source_lengths": tf.fill([examples], 50), "target_ids": words}

    return network.gnmt(vocabulary_size=1000, hidden_units=256, recompute=recompute), features


# With the examples of a step.
NETWORKS = {"bert": (bert, 8), "resnet50": (resnet50, 16), "gnmt": (gnmt, 64)}


def peak_memory():
    """The largest resident memory of this process so far, in bytes."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def work(connection, name, recompute, examples, jit_compile):
    """A process: makes the network, then a step for each message, until None."""
    import tensorflow as tf
    import tf_keras

    tf_keras.backend.experimental.enable_tf_random_generator()
    tf_keras.utils.set_random_seed(0)
    tf.config.experimental.enable_op_determinism()
    network, features = NETWORKS[name][0](recompute)
    batch = features(examples)
    optimizer = tf_keras.optimizers.SGD(0.01)
    optimizer.build(network.trainable_variables)

    @functools.partial(tf.function, jit_compile=jit_compile)
    def step():
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(network(batch, training=True))
            loss = tf.add_n([tf.reduce_mean(tf.square(each - 1.0)) for each in outputs])
        optimizer.apply_gradients(zip(tape.gradient(loss, network.trainable_variables), network.trainable_variables))
        return loss

    before = peak_memory()
    connection.send(float(step()))
    while connection.recv():
        began = time.perf_counter()
        loss = float(step())
        connection.send((time.perf_counter() - began, loss, peak_memory() - before))


def measured(name, examples, repeats, jit_compile):
    """The row of a network: a dictionary."""
    spawn = multiprocessing.get_context("spawn")
    connections, processes = {}, []
    for recompute in (False, True):
        connections[recompute], end = spawn.Pipe()
        processes.append(spawn.Process(target=work, args=(end, name, recompute, examples, jit_compile), daemon=True))
        processes[-1].start()
        # One after the other: both would compile at the same time.
        connections[recompute].recv()
    seconds, losses, memory = {False: [], True: []}, {False: [], True: []}, {}
    for _ in range(repeats):
        for recompute, connection in connections.items():
            connection.send(True)
            taken, loss, memory[recompute] = connection.recv()
            seconds[recompute].append(taken)
            losses[recompute].append(loss)
    for connection, process in zip(connections.values(), processes):
        connection.send(None)
        process.join()
    without, with_it = (statistics.median(seconds[recompute]) for recompute in (False, True))
    return {
        "network": name,
        "batch_size": examples,
        "jit_compile": jit_compile,
        "repeats": repeats,
        "seconds": [without, with_it],
        "time_ratio": statistics.median(two / one for one, two in zip(seconds[False], seconds[True])),
        "peak_bytes": [memory[False], memory[True]],
        "largest_loss_difference": max(abs(one - two) for one, two in zip(losses[False], losses[True])),
    }


def _main(unused):
    options = flags.FLAGS
    results_file.check(options.results)
    for name in options.networks:
        if name not in NETWORKS:
            raise InputError(f"--networks: {name!r} is unknown. {nearest(name, NETWORKS)}")
    rows = []
    print(
        "| network | examples | memory of a step, MB | with it | ratio | seconds | with it | ratio | losses differ by |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.networks:
        row = measured(name, options.batch_size or NETWORKS[name][1], options.repeats, options.jit_compile)
        rows.append(row)
        one, two = (each / 1e6 for each in row["peak_bytes"])
        print(
            f"| {name} | {row['batch_size']} | {one:,.0f} | {two:,.0f} | {two / one:.2f} | {row['seconds'][0]:.2f} | "
            f"{row['seconds'][1]:.2f} | {row['time_ratio']:.2f} | {row['largest_loss_difference']:.0e} |",
            flush=True,
        )
    results_file.write(options.results, "recompute.py", sys.argv[1:], rows=rows)


if __name__ == "__main__":
    command.execute(_main)
