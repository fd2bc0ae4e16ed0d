"""The loss over a vocabulary on a CPU, with its gradient: ours beside TensorFlow's kernels, in turns.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/cross_entropy.py --results=cross_entropy.json

Processor time of one evaluation from given logits, medians; the ratio is the median of those within a round.
"""

import statistics
import time

import results_file
import tensorflow as tf
from absl import flags

from tfbigbatch.tasks.losses import sparse_cross_entropy
from tfbigbatch.utils import command

flags.DEFINE_list("tokens", ["1600"], "Tokens in a batch.")
flags.DEFINE_list("vocabulary", ["10000", "30522"], "Sizes of the vocabulary.")
flags.DEFINE_integer("repeats", 9, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

SMOOTHING = 0.1


def _tensorflow(labels, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def _tensorflow_smoothed(labels, logits):
    vocabulary = logits.shape[-1]
    even = SMOOTHING / vocabulary
    target = tf.one_hot(labels, vocabulary, on_value=1.0 - SMOOTHING + even, off_value=even)
    return tf.nn.softmax_cross_entropy_with_logits(target, logits)


PAIRS = {
    "plain": (_tensorflow, sparse_cross_entropy),
    "smoothed": (_tensorflow_smoothed, lambda labels, logits: sparse_cross_entropy(labels, logits, SMOOTHING)),
}


def _with_gradient(function):
    @tf.function
    def run(labels, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            mean = tf.reduce_mean(function(labels, logits))
        return mean, tape.gradient(mean, logits)

    return run


def _seconds(function, *arguments):
    start = time.process_time()
    float(function(*arguments)[0])
    return time.process_time() - start


def measure(tokens, vocabulary, pair, repeats):
    """Milliseconds of TensorFlow's and of ours, and how many times as long the first takes."""
    logits = tf.random.stateless_normal([tokens, vocabulary], seed=[0, 0])
    labels = tf.random.stateless_uniform([tokens], [0, 1], 0, vocabulary, tf.int32)
    functions = [_with_gradient(function) for function in pair]
    rounds = [[_seconds(function, labels, logits) for function in functions] for _ in range(repeats + 1)][1:]
    theirs, ours = ([1e3 * each for each in column] for column in zip(*rounds))
    ratio = statistics.median(one / two for one, two in zip(theirs, ours))
    return {"tensorflow_ms": statistics.median(theirs), "ours_ms": statistics.median(ours), "ratio": ratio}


def _main(unused):
    options = flags.FLAGS
    results_file.check(options.results)
    measured = []
    for vocabulary in command.numbers("vocabulary", options.vocabulary, int):
        for tokens in command.numbers("tokens", options.tokens, int):
            for name, pair in PAIRS.items():
                row = {
                    "loss": name,
                    "tokens": tokens,
                    "vocabulary": vocabulary,
                    **measure(tokens, vocabulary, pair, options.repeats),
                }
                measured.append(row)
                print(
                    f"{name}, {tokens:,} tokens of {vocabulary:,}: TensorFlow {row['tensorflow_ms']:.1f} ms, "
                    f"ours {row['ours_ms']:.1f} ms, ratio {row['ratio']:.2f}",
                    flush=True,
                )
    results_file.write(options.results, "cross_entropy.py", [], measured=measured)


if __name__ == "__main__":
    command.execute(_main)
