"""The rate of Newton-Schulz steps on matrices of one shape, by how many go through one product.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/batched_products.py

Prints GFLOP in a second of this process' CPU time, medians of 7, so that other processes matter less.
"""

import statistics
import time

from tfbigbatch.utils import command

_STEPS, _REPEATS = 5, 7
# (rows, columns, number of matrices)
_CASES = [(32, 32, 64), (64, 64, 64), (128, 128, 64), (128, 512, 16), (256, 256, 16)]


def rate(rows, columns, count, batch):
    """GFLOP in a second of CPU time for `count` matrices, `batch` of them together."""
    import tensorflow as tf

    from tfbigbatch.optimizers import orthogonalization

    coefficients = orthogonalization.coefficients("quintic", _STEPS)
    matrices = [tf.random.stateless_normal([1, rows, columns], [0, index]) for index in range(count)]

    @tf.function
    def transformed():
        outcomes = []
        for first in range(0, count, batch):
            together = tf.concat(matrices[first : first + batch], axis=0)
            outcomes += tf.split(orthogonalization.newton_schulz(together, coefficients), batch)
        return outcomes

    transformed()
    seconds = []
    for _ in range(_REPEATS):
        start = time.process_time()
        transformed()
        seconds.append(time.process_time() - start)
    return count * orthogonalization.flops(rows, columns, _STEPS) / statistics.median(seconds) / 1e9


def _main(unused):
    for rows, columns, count in _CASES:
        rates = [f"{batch}: {rate(rows, columns, count, batch):.1f}" for batch in (1, 4, 16, 64) if batch <= count]
        print(f"{rows} x {columns}  {', '.join(rates)}", flush=True)


if __name__ == "__main__":
    command.execute(_main)
