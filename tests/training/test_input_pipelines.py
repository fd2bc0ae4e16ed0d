"""Input pipelines: every replica gets its own batches, in their order, and an iterator is dropped at once."""

import gc
import time

import pytest
import tensorflow as tf

from tests.conftest import replicated
from tfbigbatch.data.sources import by_index
from tfbigbatch.training import input_pipelines


def _positions(context):
    return by_index.replica_batches(lambda taken: taken, context, batch_size=8, first_step=1, last_step=1000)


@pytest.mark.parametrize("replicas", [1, 4])
def test_replicas_share_the_positions_of_a_global_batch(replicas):
    strategy = replicated(replicas)
    batches = iter(input_pipelines.distribute(strategy, _positions))
    for step in (1, 2):
        shares = strategy.experimental_local_results(next(batches))
        assert len(shares) == strategy.num_replicas_in_sync
        assert tf.concat(shares, axis=0).numpy().tolist() == list(range(step * 8, step * 8 + 8))


@pytest.mark.parametrize("replicas", [1, 4])
def test_an_iterator_that_is_dropped_does_not_hold_up(replicas):
    batches = iter(input_pipelines.distribute(replicated(replicas), _positions))
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        next(batches)
        time.sleep(0.01)
    # The collector looks at what is new alone: other tests leave much behind.
    gc.collect()
    gc.freeze()
    dropped = time.monotonic()
    del batches
    gc.collect()
    took = time.monotonic() - dropped
    gc.unfreeze()
    # TensorFlow's own way waits for about as long as the iterator was in use, for each of five: 7.5 seconds.
    assert took < 3.75


@pytest.mark.parametrize("replicas", [1, 4])
def test_each_round_of_held_out_batches_is_the_same(replicas):
    strategy = replicated(replicas)
    batches = input_pipelines.rounds(strategy, _positions, 3)
    for _ in range(2):
        shares = [strategy.experimental_local_results(next(batches)) for _ in range(3)]
        assert tf.concat(tf.nest.flatten(shares), axis=0).numpy().tolist() == list(range(8, 32))
