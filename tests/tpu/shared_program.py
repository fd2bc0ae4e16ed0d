"""Runs a TPU's program of matrices that its replicas share, on as many CPU devices as JAX has in this process.

TensorFlow lowers the program to StableHLO, and JAX's XLA compiles and runs it for all replicas.
"""

import functools
from unittest import mock

import jax
import numpy as np
import tensorflow as tf
from jax._src.lib import _jax, xla_client
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from tfbigbatch.optimizers import sharing
from tfbigbatch.tpu.strategy import AheadOfTimeStrategy

REPLICAS = jax.device_count()
# Batches [k, rows, columns]: several of one shape, one with more than one matrix, a vector, a last odd one.
SHAPES = [(1, 6, 4), (3, 5, 5), (1, 4, 6), (2, 6, 4), (4, 5, 5), (1, 1, 3), (1, 20, 20)]


def values(dtype="float32"):
    random = np.random.RandomState(0)
    return [random.normal(size=shape).astype(dtype) for shape in SHAPES]


def cube(batch):
    """X X^T X of each matrix."""
    return tf.matmul(tf.matmul(batch, batch, transpose_b=True), batch)


def flops(rows, columns):
    return 4.0 * rows * rows * columns


# Of CrossReplicaSum, which TensorFlow lowers for TPUs only, the form that it lowers for CPUs too.
sum_over_replicas = functools.partial(gen_xla_ops.xla_all_reduce, reduce_op="Add", mode="CrossReplica")


@tf.function(jit_compile=True, autograph=False)
def program(*matrices):
    # The matrices are too small to be worth it.
    with (
        mock.patch.object(tf.raw_ops, "CrossReplicaSum", sum_over_replicas),
        mock.patch.object(sharing, "worthwhile", lambda groups, *_: list(range(len(groups)))),
    ):
        strategy = AheadOfTimeStrategy(REPLICAS)
        batches = [[each] for each in matrices]
        return [value for [value] in sharing.map_matrices(cube, batches, flops=flops, strategy=strategy)]


def compiled(lowered):
    devices = jax.devices()
    options = xla_client.CompileOptions()
    ids = np.array([device.id for device in devices]).reshape(REPLICAS, 1)
    for each in (options, options.executable_build_options):
        each.num_replicas, each.num_partitions = REPLICAS, 1
        each.device_assignment = xla_client.DeviceAssignment.create(ids)
    return devices[0].client.compile_and_load(
        lowered,
        executable_devices=_jax.DeviceList(tuple(devices)),
        compile_options=options,
    )


def main():
    specs = [tf.TensorSpec(value.shape, value.dtype) for value in values()]
    lowered = program.experimental_get_compiler_ir(*specs)(stage="stablehlo", platform_name="CPU")
    executable = compiled(lowered)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("replica",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("replica"))
    arguments = [jax.device_put(np.concatenate([value] * REPLICAS), sharding) for value in values()]
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    for value, of_replicas in zip(values("float64"), results, strict=True):
        assert len(of_replicas) == REPLICAS
        for result in of_replicas:
            np.testing.assert_allclose(result, value @ value.transpose(0, 2, 1) @ value, rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(result, of_replicas[0])


if __name__ == "__main__":
    main()
