"""What saving checkpoints costs a training loop, and the steps that a kill loses.

    python benchmarks/saving.py --parameters=25000000 --every=200 --updates=600 --directory=/mnt/slow/disk

A loop of updates of LAMB: without checkpoints, with one in the foreground after every few updates, and with continuous
ones, which a thread writes. The kinds take turns. Printed is the time of an update, what the checkpoints add to it, by
the clock and in seconds of all cores, and the steps that a kill would lose: the mean over all moments of the loop of
the steps since the newest whole checkpoint. The directory's disk decides: name the one that runs are saved to. Where
other programs run too, the clock says little; the seconds of the cores leave out what waits for the disk.
"""

import os
import statistics
import tempfile
import threading
import time

from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_integer("parameters", 25_000_000, "Of the network, about; a checkpoint has three floats of each.")
flags.DEFINE_integer("updates", 60, "In a loop.", lower_bound=1)
flags.DEFINE_integer("every", 20, "Updates from one checkpoint in the foreground to the next.", lower_bound=1)
flags.DEFINE_integer("examples", 32, "In a batch.", lower_bound=1)
flags.DEFINE_integer("log_every", 10, "Updates between the moments at which a continuous one may begin.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Loops of each kind.", lower_bound=1)
flags.DEFINE_string("directory", None, "Where the checkpoints go; a temporary folder where it is left out.")

_LAYERS = 8
_KINDS = ("none", "foreground", "continuous")
_SAMPLE = 0.02  # seconds


class LostSteps:
    """The steps since the newest checkpoint of a folder, sampled by a thread in a context."""

    def __init__(self, folder):
        self.step, self.samples = 0, []
        self._folder, self._ended = folder, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._ended.set()
        self._thread.join()

    def _watch(self):
        while not self._ended.wait(_SAMPLE):
            names = [name for name in os.listdir(self._folder) if name.endswith(".index")]
            newest = max((int(name.split("-")[1].split(".")[0]) for name in names), default=0)
            self.samples.append(self.step - newest)


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
    inputs = tf.random.stateless_normal([options.examples, width], [0, 1])

    @tf.function
    def update():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(inputs, training=True)))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    def loop(kind):
        with tempfile.TemporaryDirectory(dir=options.directory) as folder:
            made = Checkpoints(network, optimizer, folder, continuous=kind == "continuous")
            made.prepare(tf.distribute.get_strategy())
            # A run's first one is in the foreground, whatever the kind.
            made.save(0)
            with LostSteps(folder) as lost:
                began, began_cores = time.perf_counter(), time.process_time()
                for step in range(1, options.updates + 1):
                    update().numpy()
                    lost.step = step
                    if kind == "foreground" and step % options.every == 0:
                        made.save(step)
                    if kind == "continuous" and step % options.log_every == 0 and made.wants_save(step):
                        made.begin_save(step)
                seconds = time.perf_counter() - began
            made.wait()
            # With the end of the last save.
            cores = time.process_time() - began_cores
            seconds, cores = seconds / options.updates, cores / options.updates
            return seconds, cores, statistics.fmean(lost.samples or [0]), max(lost.samples or [0])

    update().numpy()
    for kind in _KINDS:
        loop(kind)  # The first one traces.
    taken = {kind: [] for kind in _KINDS}
    for _ in range(options.rounds):
        for kind, measured in taken.items():
            measured.append(loop(kind))
    _print(taken, network.count_params(), options)


def _print(taken, parameters, options):
    bare = taken["none"]
    print(f"{parameters:,} parameters, {options.updates} updates of {options.examples}; medians of {options.rounds}")
    print("| checkpoints | update ms | slower | of all cores ms | more | steps lost at a kill, mean | at most |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind, measured in taken.items():
        # Of pairs that were measured after each other.
        slower, more = (
            statistics.median(row[column] / before[column] - 1.0 for row, before in zip(measured, bare))
            for column in (0, 1)
        )
        name = f"every {options.every} updates" if kind == "foreground" else kind
        update, cores, lost, most = (statistics.median(values) for values in zip(*measured))
        cells = [
            f"{1e3 * update:.2f}",
            f"{slower:+.1%}",
            f"{1e3 * cores:.2f}",
            f"{more:+.1%}",
            f"{lost:.1f}",
            f"{most:.0f}",
        ]
        if kind == "none":
            cells = [cells[0], "", cells[2], "", "", ""]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    command.execute(_main)
