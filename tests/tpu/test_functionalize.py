import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.tpu import functionalize
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy


def compare(step, variables, *inputs):
    """Runs a step, and its pure form on the variables' values before; both must give the same results."""
    traced = tf.function(step, autograph=False, jit_compile=True).get_concrete_function(*inputs)
    pure_step = functionalize.functionalize(traced)
    assert {each.ref() for each in pure_step.variables} == {each.ref() for each in variables}
    before = [tf.constant(each.numpy()) for each in pure_step.variables]
    pure = tf.function(pure_step.function, autograph=False, jit_compile=True)(*inputs, *before)
    results, values = pure[: -len(before)], pure[-len(before) :]
    for one, other in zip(tf.nest.flatten(traced(*inputs)), results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    for variable, value, old in zip(pure_step.variables, values, before, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-6)
        assert np.any(value.numpy() != old.numpy()), f"{variable.name} did not move"


def test_loops_and_branches_that_write():
    total, count = tf.Variable(1.0), tf.Variable(0, dtype=tf.int64)

    def turn(i, x):
        total.assign_add(x * tf.cast(i, tf.float32))
        return i + 1, x * 2.0

    def add(number):
        count.assign_add(number)
        return tf.cast(count, tf.float32)

    def step(x):
        _, last = tf.while_loop(lambda i, x: i < 4, turn, (0, x))
        chosen = tf.cond(total > 0.0, lambda: add(1), lambda: add(2))
        switched = tf.switch_case(tf.cast(count, tf.int32), [lambda n=n: add(n) for n in (3, 5, 7)])
        return last, chosen, switched

    compare(step, [total, count], tf.constant(1.5))


def test_a_random_generator_goes_on():
    generator, mean = tf.random.Generator.from_seed(3), tf.Variable(0.0)

    def step(x):
        mean.assign(tf.reduce_mean(generator.uniform([8]) + x))
        return generator.normal([2])

    compare(step, [generator.state, mean], tf.constant(1.0))


def test_an_operation_that_is_not_known_is_named():
    variable = tf.Variable([1.0])

    def step(x):
        variable.assign_add(x)
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.1, delta=x)

    traced = tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec([1]))
    pure_step = functionalize.functionalize(traced)
    with pytest.raises(ValueError, match="ResourceApplyGradientDescent on a variable is not supported"):
        tf.function(pure_step.function, autograph=False).get_concrete_function(*pure_step.specs)


def test_a_replica_of_many_reduces_over_all_of_them():
    strategy = AheadOfTimeStrategy(16)
    assert strategy.num_replicas_in_sync == 16 and isinstance(strategy, tf.distribute.TPUStrategy)
    with strategy.scope():
        variable = tf.Variable(lambda: tf.ones([3]), shape=[3], dtype=tf.float32)

    def replica(x):
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", x), context.all_reduce(tf.distribute.ReduceOp.MEAN, [x * variable])

    traced = tf.function(lambda x: strategy.run(replica, (x,)), autograph=False).get_concrete_function(
        tf.TensorSpec([3])
    )
    sums = [each for each in traced.graph.get_operations() if each.type == "CrossReplicaSum"]
    assert len(sums) == 2 and tf.get_static_value(sums[0].inputs[1]).tolist() == [list(range(16))]
    assert [each.type for each in traced.graph.get_operations()].count("RealDiv") == 1
