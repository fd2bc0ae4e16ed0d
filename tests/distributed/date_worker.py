"""A tf_keras `fit` under DATE whose planned peak blows up, as one worker of TF_CONFIG's cluster or alone.

`python -m tests.distributed.date_worker DIRECTORY` leaves worker0.npz, worker1.npz and so on: the
steps and gains that each worker decided, and the weights that it ended with.
"""

import os
import sys

import numpy as np
import tensorflow as tf
import tf_keras

from tfbigbatch import scaling, schedules
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.training import strategy as strategies

WARMUP, BATCH, FEATURES = 40, 16, 4


def examples(count=2 * WARMUP * BATCH):
    random = np.random.RandomState(3)
    x = random.normal(size=(count, FEATURES)).astype("float32")
    return x, x.sum(axis=1, keepdims=True) + 0.1 * random.normal(size=(count, 1)).astype("float32")


def trained(strategy):
    """(model, DATE) after two warm-ups of updates; batch normalisation keeps statistics that a look must not change."""
    tf_keras.utils.set_random_seed(0)
    with strategy.scope():
        plan = schedules.build(3.0, warmup_steps=WARMUP, total_steps=4 * WARMUP, keras="tf_keras")
        # Without its scale, so that the loss stays a quadratic, whose blow-up DATE has time to stop.
        normalisation = tf_keras.layers.BatchNormalization(center=False, scale=False)
        model = tf_keras.Sequential([tf_keras.layers.Input((FEATURES,)), normalisation, tf_keras.layers.Dense(1)])
        model.compile(tf_keras.optimizers.SGD(scaling.make_adjustable(plan)), "mse")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = tf.data.Dataset.from_tensor_slices(examples()).batch(BATCH, drop_remainder=True).with_options(options)
    date = scaling.keras2.DATE(
        probe=examples(32), micro_batches=4, recipe=scaling.Recipe(1, 0.1), batch_size=BATCH, training=True
    )
    model.fit(data, verbose=0, callbacks=[date])
    return model, date


def main(directory):
    strategy, _ = strategies.choose("auto")
    index = parse_tf_config(os.environ["TF_CONFIG"])[1]
    model, date = trained(strategy)
    weights = {f"weight/{i}": value for i, value in enumerate(model.get_weights())}
    steps, gains = zip(*((decision["step"], decision["gain"]) for decision in date.decisions))
    np.savez(os.path.join(directory, f"worker{index}.npz"), steps=steps, gains=gains, **weights)
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
