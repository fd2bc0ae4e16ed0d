"""The loss over a vocabulary on a CPU, with its gradient: ours beside TensorFlow's kernels, in turns.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/cross_entropy.py --results=cross_entropy.json
    TF_NUM_INTRAOP_THREADS=1 python benchmarks/cross_entropy.py --config=ptb/small --data_dir=FOLDER --batch_size=20,640

Processor time of one evaluation from given logits; with --config, of training steps of that language model with Keras'
loss and with ours, in float32 and in bfloat16. Medians; a ratio is the median of those within a round.
"""

import statistics
import time

import results_file
import tensorflow as tf
from absl import flags

from tfbigbatch import experiment, tasks
from tfbigbatch.tasks.losses import sparse_cross_entropy
from tfbigbatch.utils import command

flags.DEFINE_list("tokens", ["1600"], "Tokens in a batch.")
flags.DEFINE_list("vocabulary", ["10000", "30522"], "Sizes of the vocabulary.")
flags.DEFINE_integer("repeats", 9, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("config", None, "Times the training step of this experiment instead, a language model.")
flags.DEFINE_string("data_dir", None, "Where its data lies; made-up data where left out.")
flags.DEFINE_list("batch_size", ["20"], "Its batch sizes.")
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


def _training_step(config, data_dir, precision, batches, own_loss):
    """A function that makes the next training step of a new model, and returns its processor seconds."""
    import tf_keras

    from tfbigbatch.training import phases
    from tfbigbatch.training.build import compiled_model

    tf_keras.mixed_precision.set_global_policy(experiment.keras_policy(precision))
    task = tasks.get(config.task)(
        model=config.model.to_dict(), data=config.data.to_dict(), data_dir=data_dir, use_fake_data=data_dir is None
    )
    if not own_loss:
        task.loss = lambda: tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = compiled_model(config, phases.phases_of(config, lambda fields: task, 1))
    data = iter(
        task.train.training_batches(
            tf.distribute.InputContext(), batch_size=config.batch_size, seed=0, first_step=0, last_step=batches
        )
    )
    step = model.make_train_function()

    def run():
        start = time.process_time()
        float(step(data)["loss"])
        return time.process_time() - start

    return run


def measure_steps(config, data_dir, repeats):
    """Milliseconds of a step by precision and loss, and the ratios to that of before: float32 and Keras' loss."""
    kinds = [(precision, own) for precision in ("float32", "bfloat16") for own in (False, True)]
    steps = [_training_step(config, data_dir, precision, repeats + 1, own) for precision, own in kinds]
    rounds = [[step() for step in steps] for _ in range(repeats + 1)][1:]
    tokens = config.batch_size * config.model.window
    return [
        {
            "batch_size": config.batch_size,
            "precision": precision,
            "loss": "ours" if own else "Keras'",
            "step_ms": 1e3 * statistics.median(times),
            "tokens_per_second": tokens / statistics.median(times),
            "ratio": statistics.median(each[0] / time_of for each, time_of in zip(rounds, times)),
        }
        for (precision, own), times in zip(kinds, zip(*rounds))
    ]


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
    if options.config:
        for batch_size in command.numbers("batch_size", options.batch_size, int):
            config = experiment.load(options.config)
            config.batch_size, config.steps_per_execution = batch_size, 1
            for row in measure_steps(config, options.data_dir, options.repeats):
                measured.append(row)
                print(
                    f"{batch_size:,} streams, {row['precision']}, {row['loss']} loss: {row['step_ms']:.0f} ms, "
                    f"{row['tokens_per_second']:,.0f} tokens a second, ratio {row['ratio']:.2f}",
                    flush=True,
                )
        sizes = f"--batch_size={','.join(options.batch_size)} --repeats={options.repeats}"
        results_file.write(
            options.results, "cross_entropy.py", [f"--config={options.config}", sizes], measured=measured
        )
        return
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
    results_file.write(options.results, "cross_entropy.py", [f"--repeats={options.repeats}"], measured=measured)


if __name__ == "__main__":
    command.execute(_main)
