"""What saving checkpoints costs a training loop.

    python benchmarks/saving.py --parameters=25000000 --directory=/mnt/slow/disk

A loop of updates of LAMB, without checkpoints and with one after every few of them, in turns. Printed is the time of
the whole loop, of one update and of what a checkpoint adds to the loop. The directory's disk decides: name the one that
runs are saved to.
"""

import statistics
import tempfile
import time

from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_integer("parameters", 25_000_000, "Of the network, about; a checkpoint has three floats of each.")
flags.DEFINE_integer("updates", 60, "In a loop.", lower_bound=1)
flags.DEFINE_integer("every", 20, "Updates from one checkpoint to the next.", lower_bound=1)
flags.DEFINE_integer("rounds", 3, "Loops of each kind.", lower_bound=1)
flags.DEFINE_string("directory", None, "Where the checkpoints go; a temporary folder where it is left out.")

_LAYERS = 8


def _main(unused):
    import tensorflow as tf
    import tf_keras

    from tfbigbatch.optimizers.keras2 import LAMB
    from tfbigbatch.training.checkpoints import Checkpoints

    options = flags.FLAGS
    width = max(1, round((options.parameters / _LAYERS) ** 0.5))
    network = tf_keras.Sequential(
        [tf_keras.layers.Input((width,)), *(tf_keras.layers.Dense(width) for _ in range(_LAYERS))]
    )
    optimizer = LAMB(1e-3)
    optimizer.build(network.trainable_variables)
    inputs = tf.random.stateless_normal([32, width], [0, 1])

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(inputs, training=True)))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    def loop(kind):
        with tempfile.TemporaryDirectory(dir=options.directory) as folder:
            made = Checkpoints(network, optimizer, folder)
            began = time.perf_counter()
            for step in range(1, options.updates + 1):
                update().numpy()
                if kind != "none" and step % options.every == 0:
                    made.save(step)
            return time.perf_counter() - began

    update().numpy()
    loop("saved")  # The first one traces what saves.
    taken = {kind: [] for kind in ("none", "saved")}
    for _ in range(options.rounds):
        for kind, times in taken.items():
            times.append(loop(kind))
    _print(taken, network.count_params(), options)


def _print(taken, parameters, options):
    saves = options.updates // options.every
    bare = statistics.median(taken["none"])
    print(f"{parameters:,} parameters; {options.updates} updates, {saves} checkpoints; medians of {options.rounds}")
    print("checkpoints    loop s   update ms   a checkpoint adds ms")
    for kind, times in taken.items():
        in_loop = statistics.median(times)
        added = f"{1e3 * (in_loop - bare) / saves:20.1f}" if saves and kind != "none" else " " * 20
        print(f"{kind:12s} {in_loop:8.2f} {1e3 * in_loop / options.updates:11.2f} {added}")


if __name__ == "__main__":
    command.execute(_main)
