"""What naming the slowest worker costs: steps of two workers on loopback, measured and unmeasured in turn.

    python benchmarks/stragglers.py [--rounds=7] [--steps=200]

Both kinds of step are of the same eight dense layers; the exchange of a row of the log is measured by itself.
"""

import json
import os
import statistics
import subprocess
import sys
import time

from absl import app, flags

from tfbigbatch.cluster.local import free_addresses

flags.DEFINE_integer("rounds", 7, "Turns of each kind.", lower_bound=1)
flags.DEFINE_integer("steps", 200, "Steps in a turn.", lower_bound=1)
flags.DEFINE_bool("worker", False, "Be one of the two workers.")


def work():
    import numpy as np
    import tensorflow as tf

    from tfbigbatch import optimizers
    from tfbigbatch.training import strategy as strategies
    from tfbigbatch.training.reduction_time import ReductionTime

    strategy, _ = strategies.choose("multi_worker")
    with strategy.scope():
        weights = [tf.Variable(tf.random.stateless_normal([256, 256], [index, 0])) for index in range(8)]
        optimizer = optimizers.get("lamb", keras="tf_keras", learning_rate=1e-3)
        optimizer.build(weights)
        clock = ReductionTime()

    def step(measured):
        inputs = tf.ones([64, 256])
        with tf.GradientTape() as tape:
            for each in weights:
                inputs = tf.tanh(inputs @ each)
            loss = tf.reduce_mean(inputs**2)
        gradients = tape.gradient(loss, weights)
        if not measured:
            optimizer.apply_gradients(zip(gradients, weights))
            return
        begin = clock.now(gradients)
        summed = optimizer.aggregate_gradients(list(zip(gradients, weights)))
        clock.add(begin, clock.now([gradient for gradient, _ in summed]))
        optimizer.apply_gradients(summed, skip_gradients_aggregation=True)

    functions = [tf.function(lambda measured=measured: strategy.run(step, (measured,))) for measured in (False, True)]
    seconds = [[], []]
    exchange = []
    strategies.of_workers(strategy, np.zeros([1]))
    for turn in range(flags.FLAGS.rounds + 1):
        for kind in (0, 1) if turn % 2 else (1, 0):
            functions[kind]()
            begin = time.perf_counter()
            for _ in range(flags.FLAGS.steps):
                functions[kind]()
            if turn:
                seconds[kind].append((time.perf_counter() - begin) / flags.FLAGS.steps)
        begin = time.perf_counter()
        strategies.of_workers(strategy, np.array([clock.take()]))
        exchange.append(time.perf_counter() - begin)
    if strategies.is_chief(strategy):
        plain, measured = (statistics.median(each) for each in seconds)
        ratio = statistics.median(after / before for before, after in zip(*seconds))
        print(
            f"step {1e3 * plain:.3f} ms, measured {1e3 * measured:.3f} ms, ratio {ratio:.4f}; "
            f"exchange of a row {1e3 * statistics.median(exchange):.2f} ms"
        )


def main(arguments):
    if flags.FLAGS.worker:
        work()
        return
    addresses = free_addresses(2)
    workers = [
        subprocess.Popen(
            [sys.executable, *sys.argv, "--worker"],
            env={
                **os.environ,
                "TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}),
            },
        )
        for index in range(2)
    ]
    sys.exit(max(worker.wait() for worker in workers))


if __name__ == "__main__":
    app.run(main)
