"""Twenty updates of each case, by either keras_version's optimizers.

As one worker of TF_CONFIG's cluster, `python -m tests.distributed.optimizer_worker DIRECTORY KERAS_VERSION/CASE...`
leaves worker0.npz, worker1.npz and so on: each case's weights and optimizer state, as that worker has them.
"""

import os
import sys

import numpy as np
import tensorflow as tf

from tests.helpers.keras_versions import KERAS, make
from tfbigbatch.cluster.tf_config import parse_tf_config
from tfbigbatch.training import strategy as strategies

UPDATES, BATCH = 20, 32
VOCABULARY, TOKENS = 12, 4

LARS = {"name": "LARS", "eeta": 0.02, "rates": (2.0, 0.2)}
LAMB = {"name": "LAMB", "rates": (0.05, 0.005)}
# Two matrices: each of two workers orthogonalises one.
MUON = {"name": "Muon", "rates": (0.02, 0.002), "matrices": {"embedding|kernel": "matrix"}, "share_work": True}
# Of the same name before the dot: the same updates, and the same end.
CASES = {
    "lars": LARS,
    "lars.two_micro_batches_by_xla": {**LARS, "accumulation_steps": 2, "jit_compile": True},
    "lamb": LAMB,
    "muon": MUON,
}


def optimizer(keras_version, *, name, rates, **options):
    first, last = rates
    schedule = KERAS[keras_version].optimizers.schedules.PolynomialDecay(first, UPDATES, last)
    options = {"global_clipnorm": 0.02, "jit_compile": False, **options}
    return make(
        keras_version,
        name,
        learning_rate=schedule,
        weight_decay=0.01,
        exclude_from_weight_decay="norm_and_bias",
        **options,
    )


def small_model(keras_version):
    """An embedding, whose gradient is sparse, a normalisation and a bias, which are excluded, and a dense kernel."""
    KERAS[keras_version].utils.set_random_seed(0)
    layers = KERAS[keras_version].layers
    return KERAS[keras_version].Sequential(
        [layers.Input((TOKENS,), dtype="int32"), layers.Embedding(VOCABULARY, 6), layers.Flatten()]
        + [layers.LayerNormalization(), layers.Dense(1, activation="tanh")]
    )


def batches(size):
    """The same batches whatever the number of workers; a token comes several times in each, and on several workers."""
    random = np.random.RandomState(0)
    x = random.randint(VOCABULARY, size=(UPDATES * BATCH, TOKENS)).astype("int32")
    y = np.sin(x).mean(axis=1, keepdims=True).astype("float32")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size, drop_remainder=True).with_options(options)


def trained(keras_version, strategy, **case):
    """(model, its optimizer) after UPDATES updates: by `fit` in tf_keras, by a loop in Keras 3."""
    size = BATCH // case.get("accumulation_steps", 1)
    with strategy.scope():
        model, rule = small_model(keras_version), optimizer(keras_version, **case)
        if keras_version == "tf_keras":
            model.compile(optimizer=rule, loss="mse")
    if keras_version == "tf_keras":
        model.fit(batches(size), verbose=0)
    else:
        loop(strategy, model, rule, size)
    return model, rule


def loop(strategy, model, rule, size):
    """A custom loop: Keras 3's own `fit` fails under MultiWorkerMirroredStrategy (keras-team/keras#20585)."""

    @tf.function
    def step(batch):
        def replica(x, y):
            with tf.GradientTape() as tape:
                # The share of this replica in the mean over the whole batch: gradients are summed.
                loss = tf.reduce_sum(tf.square(model(x, training=True) - y)) / size
            variables = model.trainable_variables
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            rule.apply_gradients(zip(gradients, variables))

        strategy.run(replica, args=batch)

    for batch in strategy.experimental_distribute_dataset(batches(size)):
        step(batch)


def ends(strategy, cases):
    """Arrays by name after the cases: "keras_version/case/weights/0" and so on."""
    arrays = {"replicas": np.asarray(strategy.num_replicas_in_sync)}
    for name in cases:
        keras_version, case = name.split("/")
        model, rule = trained(keras_version, strategy, **CASES[case])
        state = [np.asarray(variable) for variable in rule.variables]
        for kind, values in (("weights", model.get_weights()), ("state", state)):
            arrays.update({f"{name}/{kind}/{i}": value for i, value in enumerate(values)})
        arrays[f"{name}/iterations"] = np.asarray(rule.iterations)
    return arrays


def main(directory, *cases):
    strategy, _ = strategies.choose("auto")
    index = parse_tf_config(os.environ["TF_CONFIG"])[1]
    np.savez(os.path.join(directory, f"worker{index}.npz"), **ends(strategy, cases))
    # The first worker serves the cluster: it must not leave before the others are done.
    strategies.barrier(strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
