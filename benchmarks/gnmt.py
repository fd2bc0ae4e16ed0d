"""Times GNMT: a training step beside the same network of plain Keras layers, buckets beside none, and decoding.

    python benchmarks/gnmt.py --batch_size=64,512 --bucketed_batch_size=512 --data_dir=data/multi30k_en_de \
      --results=results/throughput/gnmt.json

Training is a forward pass, the smoothed cross entropy, a backward pass and Adam, on made-up sentences of half to the
whole of --length; the baselines take turns, step by step, in one process. Figures are medians: real target tokens a
second, and sentences a second. With buckets, --batches of pairs of the lengths of --data_dir, or of made-up ones, are
trained on in the trainer's order: cut to the shapes of their buckets, and all padded to the longest. Decoding is ours
alone; an untrained network hardly ever ends a sentence, so that each takes --length tokens: the longest that a search
can take.
"""

import statistics
import time

import gnmt_baselines
import gnmt_buckets
from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_integer("vocabulary_size", 8000, "Tokens of the vocabulary.", lower_bound=4)
flags.DEFINE_integer("hidden_units", 256, "Of each LSTM; MLPerf's has 1,024.", lower_bound=1)
flags.DEFINE_integer("encoder_layers", 4, "LSTMs of the encoder.", lower_bound=1)
flags.DEFINE_integer("decoder_layers", 4, "LSTMs of the decoder.", lower_bound=1)
flags.DEFINE_integer("length", 24, "Tokens of the longest sentence, of source and target.", lower_bound=2)
flags.DEFINE_list("batch_size", ["128"], "Sentences in a training step. Empty: no training beside plain Keras.")
flags.DEFINE_list("bucketed_batch_size", ["128"], "Sentences in one with and without buckets. Empty: none of it.")
flags.DEFINE_integer("batches", 20, "Batches of an epoch with and without buckets, all in each repeat.", lower_bound=1)
flags.DEFINE_integer("most_shapes", 5, "Shapes that buckets have, at most.", lower_bound=1)
flags.DEFINE_string("data_dir", None, "A prepared folder, whose pairs' lengths are taken; left out, made-up ones.")
flags.DEFINE_list("beam_size", ["1", "5"], "Beams to decode with; 1 is greedy. Empty: no decoding.")
flags.DEFINE_integer("decode_batch_size", 64, "Sentences that are decoded at once.", lower_bound=1)
flags.DEFINE_integer("repeats", 10, "Timed steps of each baseline.", lower_bound=1)
flags.DEFINE_bool("jit_compile", False, "Compiled by XLA, training and decoding.")
flags.DEFINE_enum("mixed_precision", "float32", ["float32", "bfloat16"], "What the layers compute in.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")

_BEGIN, _END = 1, 2


def made_up_batch(batch_size, length, vocabulary_size, seed=0):
    """Inputs, labels and weights of a training step, as NumPy arrays."""
    import numpy as np

    random = np.random.RandomState(seed)
    lengths = random.randint(length // 2, length + 1, (2, batch_size)).astype(np.int32)
    real = np.arange(length) < lengths[..., None]
    source, labels = np.where(real, random.randint(3, vocabulary_size, real.shape), 0).astype(np.int32)
    target = np.concatenate([np.full([batch_size, 1], _BEGIN, np.int32), labels[:, :-1]], axis=1)
    inputs = {"source_ids": source, "source_lengths": lengths[0], "target_ids": target}
    return inputs, labels, real[1].astype(np.float32)


def training_step(network, jit_compile):
    """A function that runs one update and gives the loss."""
    import tensorflow as tf
    import tf_keras

    from tfbigbatch.tasks.losses import SmoothedTokenCrossEntropy

    loss_of, optimizer = SmoothedTokenCrossEntropy(0.1), tf_keras.optimizers.Adam(1e-4)
    optimizer.build(network.trainable_variables)

    @tf.function(jit_compile=jit_compile)
    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, network(inputs, training=True), weights)
        variables = network.trainable_variables
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    return step


def seconds_in_turn(calls, repeats):
    """Seconds of each call of each of `calls`, a dictionary of functions, after one that is not timed."""
    seconds = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def training(sizes, batch_size, repeats, jit_compile):
    """The figures of a training step at a batch size."""
    import tensorflow as tf

    length = sizes["source_length"]
    batch = made_up_batch(batch_size, length, sizes["vocabulary_size"])
    tokens = int(batch[2].sum())
    batch = tf.nest.map_structure(tf.constant, batch)
    steps = {
        name: training_step(make(**sizes, dropout=0.2), jit_compile) for name, make in gnmt_baselines.BASELINES.items()
    }
    calls = {name: lambda step=step: float(step(*batch)) for name, step in steps.items()}
    seconds = seconds_in_turn(calls, repeats)
    speed = {name: tokens / statistics.median(values) for name, values in seconds.items()}
    ratio = speed["tfbigbatch"] / speed["plain_keras"]
    shown = ", ".join(f"{name} {value:,.0f}" for name, value in speed.items())
    print(f"training, batch {batch_size:,}: {shown} target tokens a second; {ratio:.2f} of plain Keras", flush=True)
    return {"batch_size": batch_size, "tokens": tokens, "tokens_per_second": speed, "ratio": ratio, "seconds": seconds}


def bucketed(sizes, batch_size, lengths, most_shapes, repeats, jit_compile):
    """The figures of an epoch with buckets, and with all batches padded to the longest pair.

    Args:
      lengths: integer array of [pairs, 2]; whole batches.
    """
    import tensorflow as tf

    from tfbigbatch.data.translation import length_buckets
    from tfbigbatch.models.gnmt.network import gnmt

    sizes = {**sizes, "source_length": None, "target_length": None}
    shapes, places, calls = {}, {}, {}
    for name, most in (("bucketed", most_shapes), ("padded", 1)):
        shapes[name] = length_buckets.choose(lengths, most)
        batches = gnmt_buckets.batches(
            lengths, shapes[name], batch_size, sizes["vocabulary_size"], begin=_BEGIN, end=_END
        )
        places[name] = sum(batch[1].size + batch[0]["source_ids"].size for batch in batches)
        batches = [tf.nest.map_structure(tf.constant, batch) for batch in batches]
        step = training_step(gnmt(**sizes, dropout=0.2), jit_compile)
        calls[name] = lambda step=step, batches=batches: [float(step(*batch)) for batch in batches]
    seconds = seconds_in_turn(calls, repeats)
    speed = {name: int(lengths[:, 1].sum()) / statistics.median(values) for name, values in seconds.items()}
    padding = {name: 1 - int(lengths.sum()) / count for name, count in places.items()}
    ratio = speed["bucketed"] / speed["padded"]
    shown = ", ".join(f"{name} {value:,.0f} ({padding[name]:.1%} padding)" for name, value in speed.items())
    print(f"buckets, batch {batch_size:,}: {shown} target tokens a second; {ratio:.2f} of padded", flush=True)
    figures = {"tokens_per_second": speed, "ratio": ratio, "padding": padding, "shapes": shapes, "seconds": seconds}
    return {"batch_size": batch_size, "pairs": len(lengths), **figures}


def decoding(sizes, batch_size, beam_size, repeats, jit_compile):
    """The figures of a search."""
    import tensorflow as tf

    from tfbigbatch.models.gnmt.decoding import translate
    from tfbigbatch.models.gnmt.network import gnmt

    length, network = sizes["source_length"], gnmt(**sizes)
    inputs = tf.nest.map_structure(tf.constant, made_up_batch(batch_size, length, sizes["vocabulary_size"])[0])

    @tf.function(jit_compile=jit_compile)
    def search():
        return translate(
            network,
            inputs["source_ids"],
            inputs["source_lengths"],
            begin_token=_BEGIN,
            end_token=_END,
            max_length=length,
            beam_size=beam_size,
        )

    seconds = seconds_in_turn({"search": lambda: search().tokens.numpy()}, repeats)["search"]
    speed = batch_size / statistics.median(seconds)
    print(f"decoding, beam {beam_size}: {speed:,.1f} sentences a second", flush=True)
    return {"batch_size": batch_size, "beam_size": beam_size, "sentences_per_second": speed, "seconds": seconds}


def _main(unused):
    import tf_keras

    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    batch_sizes = command.numbers("batch_size", options.batch_size, int)
    bucketed_batch_sizes = command.numbers("bucketed_batch_size", options.bucketed_batch_size, int)
    beam_sizes = command.numbers("beam_size", options.beam_size, int)
    if options.mixed_precision == "bfloat16":
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    sizes = {
        "vocabulary_size": options.vocabulary_size,
        "hidden_units": options.hidden_units,
        "encoder_layers": options.encoder_layers,
        "decoder_layers": options.decoder_layers,
        "source_length": options.length,
        "target_length": options.length,
    }
    run = {"repeats": options.repeats, "jit_compile": options.jit_compile}
    trained = [training(sizes, batch_size, **run) for batch_size in batch_sizes]
    with_buckets = []
    for batch_size in bucketed_batch_sizes:
        lengths = gnmt_buckets.lengths(options.data_dir, options.batches * batch_size, options.length)
        with_buckets.append(bucketed(sizes, batch_size, lengths, options.most_shapes, **run))
    decoded = [decoding(sizes, options.decode_batch_size, beam_size, **run) for beam_size in beam_sizes]
    if options.results:
        setting = {**sizes, "mixed_precision": options.mixed_precision, "data_dir": options.data_dir, **run}
        figures = {"training": trained, "buckets": with_buckets, "decoding": decoded}
        write_json(options.results, {"setting": setting, **figures, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
