"""Adasum beside averaging on two worker processes, which this program starts on this machine.

    python examples/adasum_two_workers.py

About 30 seconds on two cores. Each worker computes gradients of its half of a batch of scikit-learn's digits. They are
averaged, as data parallelism does, or combined by Adasum: added where they are orthogonal, averaged where they agree.
Neither has its learning rate raised for two workers. It prints both losses after three epochs: Adasum's is lower, since
its steps are longer. --seed=N takes other weights.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

WORKERS, BATCH, LEARNING_RATE = 2, 64, 0.02


def work(epochs, seed):
    """One worker: TF_CONFIG has the cluster's addresses, and which of them is its own."""
    import tensorflow as tf
    from sklearn.datasets import load_digits

    import tfbigbatch

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = load_digits(return_X_y=True)
    # Both workers shuffle alike, and each takes every second example of a batch.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    for name in ("average", "Adasum"):
        tf.keras.utils.set_random_seed(seed)
        dataset = tf.data.Dataset.from_tensor_slices(((images / 16).astype("float32"), labels)).shuffle(2000, seed=0)
        with strategy.scope():
            layers = tf.keras.layers
            model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(64, "relu"), layers.Dense(10)])
            optimizer = tf.keras.optimizers.SGD(LEARNING_RATE)
            model.compile(
                tfbigbatch.Adasum(optimizer) if name == "Adasum" else optimizer,
                tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            )
        history = model.fit(
            dataset.batch(BATCH, drop_remainder=True).with_options(options), epochs=epochs, verbose=0
        ).history
        print(f"{name:<8} loss after {epochs} epochs {history['loss'][-1]:.3f}", flush=True)


def main(arguments):
    """Starts this file once for each worker, and waits for them."""
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{free.getsockname()[1]}" for free in (one, other)]
    workers = []
    for index in range(WORKERS):
        job = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        # Keras 3's fit does not train on several workers; Keras 2's does.
        environment = {**os.environ, "TF_CONFIG": json.dumps(job), "TF_USE_LEGACY_KERAS": "1"}
        output = None if index == 0 else subprocess.DEVNULL
        command = [sys.executable, "-W", "ignore", __file__, "--worker", *arguments]
        workers.append(subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True))
    for worker in workers:
        _, errors = worker.communicate()
        if worker.returncode:
            sys.exit(errors[-2000:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    work(parsed.epochs, parsed.seed) if parsed.worker else main(sys.argv[1:])
