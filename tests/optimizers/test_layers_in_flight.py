"""Which layers are updated at the same time: how many elements are in flight, and the same weights in any order."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.keras_versions import KERAS_VERSIONS, make, variables
from tfbigbatch.optimizers import updater
from tfbigbatch.optimizers.layers_in_flight import LayersInFlight


def ancestors(operation):
    """All operations that end before this one starts."""
    found, left = set(), [operation]
    while left:
        for each in [*left[-1].control_inputs, *(tensor.op for tensor in left.pop().inputs)]:
            if each not in found:
                found.add(each)
                left.append(each)
    return found


@pytest.mark.parametrize("sizes", [[5, 3, 2, 9, 1, 1, 1, 4, 4, 4], [4] * 6, [10] * 4, [1] * 30, [12, 1, 12, 1]])
def test_layers_in_flight_have_no_more_elements_than_room(sizes):
    room, operations = 10, []
    with tf.Graph().as_default():
        in_flight = LayersInFlight(room)
        for size in sizes:
            with tf.control_dependencies(in_flight.before(size)):
                operations.append(tf.no_op())
            in_flight.add(size, operations[-1])
        for index, operation in enumerate(operations):
            ended = ancestors(operation)
            others = [size for size, each in zip(sizes[:index], operations) if each not in ended]
            together = sum(others) + sizes[index]
            assert not others or together <= room
            # It waits for none that there is room for.
            assert index == len(others) or together + sizes[index - len(others) - 1] > room


def compiled(optimizer, variables):
    """A step as a graph."""

    @tf.function
    def step(gradients):
        optimizer.apply_gradients(zip(gradients, variables))

    return step


@pytest.mark.parametrize("keras_version", KERAS_VERSIONS)
@pytest.mark.parametrize("name", ["LAMB", "LARS"])
def test_the_order_of_layers_changes_no_bit(keras_version, name, monkeypatch):
    random = np.random.RandomState(3)
    sizes = [4, 40, 4, 8, 2, 30]
    weights = {f"kernel_{index}": random.normal(size=(size, 8)) for index, size in enumerate(sizes)}
    gradients = [[random.normal(size=each.shape) for each in weights.values()] for _ in range(3)]
    ends = []
    for smallest in (2**16, 1):
        monkeypatch.setattr(updater, "_LARGE", smallest)
        ours = variables(keras_version, weights)
        optimizer = make(keras_version, name, learning_rate=0.1, weight_decay=0.01, global_clipnorm=5.0)
        optimizer.build(ours)
        step = compiled(optimizer, ours)
        for given in gradients:
            step([tf.constant(each, tf.float32) for each in given])
        ends.append([np.array(each) for each in ours])
    for one, other in zip(*ends):
        np.testing.assert_array_equal(one, other)
