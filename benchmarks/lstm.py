"""An LSTM on a CPU, forward and backward: Keras' layer, unrolled too, beside SequenceLSTM, in turns.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/lstm.py --results=lstm.json

The sizes are those of PTB-small and MNIST-LSTM. Processor time, medians; a ratio is Keras' time over another's within a
round. GFLOP are of the matrix products.
"""

import statistics
import time

import results_file
import tensorflow as tf
import tf_keras
from absl import flags

from tfbigbatch.models.sequence_lstm import SequenceLSTM
from tfbigbatch.utils import command

flags.DEFINE_integer("repeats", 5, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

# (name, batch size, time steps, units).
SIZES = (("PTB", 20, 20, 200), ("PTB", 640, 20, 200), ("MNIST", 128, 28, 128), ("MNIST", 8192, 28, 128))


def _layers(units):
    return {
        "keras": tf_keras.layers.LSTM(units, return_sequences=True),
        "keras_unrolled": tf_keras.layers.LSTM(units, return_sequences=True, unroll=True),
        "sequence_lstm": SequenceLSTM(units),
    }


def _step(layer, values):
    @tf.function
    def run():
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(layer(values) * values)
        return tape.gradient(loss, [values, *layer.trainable_variables])

    def seconds():
        start = time.process_time()
        run()[-1].numpy()
        return time.process_time() - start

    return seconds


def measure(batch_size, steps, units, repeats):
    """Milliseconds by layer, and Keras' time over each."""
    values = tf.random.stateless_normal([batch_size, steps, units], seed=[0, 0])
    timed = {name: _step(layer, values) for name, layer in _layers(units).items()}
    rounds = [{name: run() for name, run in timed.items()} for _ in range(repeats + 1)][1:]
    return {
        name: {
            "ms": 1e3 * statistics.median(each[name] for each in rounds),
            "ratio": statistics.median(each["keras"] / each[name] for each in rounds),
        }
        for name in timed
    }


def _main(unused):
    options = flags.FLAGS
    results_file.check(options.results)
    measured = []
    for name, batch_size, steps, units in SIZES:
        found = measure(batch_size, steps, units, options.repeats)
        # Forward, and backward to inputs and weights: three times inputs and outputs with 4 * units columns each.
        gflop = 3 * 2 * batch_size * steps * 2 * units * 4 * units / 1e9
        measured.append({"name": name, "batch_size": batch_size, "gflop": gflop, "layers": found})
        shown = ", ".join(f"{layer} {each['ms']:.1f} ms ({each['ratio']:.2f})" for layer, each in found.items())
        print(f"{name} at {batch_size:,}, {gflop:.1f} GFLOP: {shown}", flush=True)
    results_file.write(options.results, "lstm.py", [f"--repeats={options.repeats}"], measured=measured)


if __name__ == "__main__":
    command.execute(_main)
