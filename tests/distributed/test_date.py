"""DATE in real processes: every worker decides the same, none waits for another, one says it."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.distributed.worker import run_together
from tfbigbatch import scaling, schedules

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


WORKERS = 2


def in_a_worker(strategy, directory):
    model, date = trained(strategy)
    weights = {f"weight/{i}": value for i, value in enumerate(model.get_weights())}
    steps, gains = zip(*((decision["step"], decision["gain"]) for decision in date.decisions))
    return {"steps": np.array(steps), "gains": np.array(gains), **weights}


@pytest.mark.slow
def test_workers_decide_the_same(tmp_path):
    first, second = run_together(WORKERS, tmp_path, in_a_worker)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
    spoken = [(tmp_path / f"worker{i}.log").read_text().count("DATE at step") for i in range(WORKERS)]
    assert spoken == [len(first["steps"]), 0] and spoken[0] > 1
    # Batch statistics are each replica's own: near what one process decides, not its bits.
    _, alone = trained(tf.distribute.get_strategy())
    assert first["gains"][0] < 1.0 and alone.decisions[0]["gain"] < 1.0
    assert all(np.isfinite(value).all() for value in first.values())
