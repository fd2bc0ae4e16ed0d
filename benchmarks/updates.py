"""Measures updates of some optimizers in this process; `optimizers.py` starts it and sets its environment.

    python benchmarks/updates.py --model=tiny --optimizers=tfbigbatch_lamb --results=measured.json

With --repeats, the optimizers side by side; without, the first call and the memory of a single one.
"""

import concurrent.futures
import gc
import json
import os
import resource
import time

import baselines
import numpy as np
import tensorflow as tf
import variables
from absl import flags

from tfbigbatch.utils import command

_WARM_UPS = 2
_STREAM_MIB = 256
PRECISIONS = ("float32", "bfloat16", "float16")

flags.DEFINE_enum("model", None, variables.models(), "Whose variables are updated.", required=True)
flags.DEFINE_list("optimizers", None, "Names of baselines.", required=True)
flags.DEFINE_integer("repeats", 0, "Timed rounds; 0 for the first call and the memory.", lower_bound=0)
flags.DEFINE_float("clip_norm", 0.0, "The gradients are clipped to this global norm; 0 for not.", lower_bound=0.0)
flags.DEFINE_enum("precision", "float32", PRECISIONS, "What the gradients come in; float16 with loss scaling.")
flags.DEFINE_string("results", None, "Where the JSON goes.", required=True)


class Update:
    """A baseline on variables of its own; calling it runs one update and returns (seconds, the processors' seconds).

    Args:
      name: of the baseline.
      table: of the variables.
      clip_norm: global norm of the gradients at most; 0.0 for any.
      precision: of the gradients, which are cast to that of the weights; float16's are unscaled and tested first.
    """

    def __init__(self, name, table, clip_norm=0.0, precision="float32"):
        baseline = baselines.get(name)
        self._clip_norm = 0.0 if baseline.clips else clip_norm
        self.optimizer = baseline.make(**({"global_clipnorm": clip_norm} if clip_norm and baseline.clips else {}))
        self.variables = [
            baselines.make_variable(baseline, path, _noise(shape, index, 0.05))
            for index, (path, shape) in enumerate(table)
        ]
        baselines.build(self.optimizer, self.variables)
        self._applying, self._unscales = self.optimizer, False
        if precision == "float16":
            self._applying = baselines.scaled(baseline, self.optimizer)
            baselines.build(self._applying, self.variables)
            # Keras 3's does it within apply_gradients.
            self._unscales = not baseline.keras3
        self._done = 0
        self._function = tf.function(self._apply)

    def _apply(self, gradients):
        # The gradient of the layers' cast of float32 weights.
        gradients = [tf.cast(gradient, tf.float32) for gradient in gradients]
        if self._unscales:
            gradients = self._applying.get_unscaled_gradients(gradients)
        if self._clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        self._applying.apply_gradients(zip(gradients, self.variables))
        return tf.convert_to_tensor(self.optimizer.iterations)

    def __call__(self, gradients):
        start, used = time.perf_counter(), time.process_time()
        # On the CPU the call returns when all ops of the function have run; the count says that they did.
        iterations = int(self._function(gradients))
        seconds = time.perf_counter() - start, time.process_time() - used
        self._done += 1
        if iterations != self._done:
            raise RuntimeError(f"{self.optimizer.name} counts {iterations} updates after {self._done}.")
        return seconds

    def checksum(self):
        """Sum of all absolute weights: optimizers of one rule must agree on it after as many updates."""
        return float(sum(tf.reduce_sum(tf.abs(tf.convert_to_tensor(variable))) for variable in self.variables))


def _noise(shape, seed, scale):
    return tf.random.stateless_uniform(shape, seed=(seed, 0), minval=-scale, maxval=scale)


def _gradients(table, precision):
    """One gradient for each variable: arguments of every update, so that nothing folds them away."""
    return [tf.cast(_noise(shape, len(table) + index, 0.01), precision) for index, (_, shape) in enumerate(table)]


class Stream:
    """Streams through memory; calling it returns the bytes per second of TensorFlow and of NumPy."""

    def __init__(self, mib):
        elements = mib * 2**20 // 4
        self._total = tf.Variable(tf.ones([elements]))
        self._delta = tf.fill([elements], 1e-9)
        self._source, self._target = np.ones(elements, np.float32), np.zeros(elements, np.float32)
        self._pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())

        parts = [np.array_split(array, os.cpu_count()) for array in (self._target, self._source)]
        self._parts = list(zip(*parts))

    def __call__(self):
        start = time.perf_counter()
        self._total.assign_add(self._delta, read_value=False)
        added = time.perf_counter()
        list(self._pool.map(lambda part: np.copyto(*part), self._parts))
        copied = time.perf_counter()
        # The addition reads two arrays and writes one, in place; the copy reads one and writes one.
        return 3 * self._source.nbytes / (added - start), 2 * self._source.nbytes / (copied - added)


def _peak_growth(action):
    """Bytes that TensorFlow's allocator held at its highest during `action`, above what it held before.

    The process' resident memory would not tell: the allocator keeps what is freed. Returns None where
    TensorFlow does not count, as without oneDNN.
    """
    gc.collect()
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
        before = tf.config.experimental.get_memory_info("CPU:0")["current"]
        action()
        return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before
    except ValueError:
        return None


def _first_call(name, table, setting):
    """Seconds of the first call (trace and compile included) and the memory of the later ones."""
    update, gradients = Update(name, table, **setting), _gradients(table, setting["precision"])
    first, _ = update(gradients)
    growth = _peak_growth(lambda: [update(gradients) for _ in range(3)])
    return {"first_call_s": first, "peak_growth_bytes": growth}


def _side_by_side(updates, table, precision, repeats):
    """Times one update of each in turn, round after round, with the memory's bandwidth between."""
    gradients, stream = _gradients(table, precision), Stream(_STREAM_MIB)
    seconds, used, bandwidth = {name: [] for name in updates}, {name: [] for name in updates}, []
    order = list(updates)
    print("  round ", end="", flush=True)
    for number in range(1 - _WARM_UPS, repeats + 1):
        timed = {name: updates[name](gradients) for name in order}
        streamed = stream()
        order.append(order.pop(0))  # nobody is always the one after the stream
        if number < 1:
            continue
        print(f"{number} ", end="", flush=True)
        bandwidth.append(streamed)
        for name in updates:
            for times, time_of_update in zip((seconds, used), timed[name]):
                times[name].append(time_of_update)
    print(flush=True)
    added, copied = zip(*bandwidth)
    return {
        "seconds": seconds,
        "processor_seconds": used,
        "assign_add_bytes_per_s": added,
        "numpy_copy_bytes_per_s": copied,
        "checksums": {name: update.checksum() for name, update in updates.items()},
        "threads": {
            "intra_op": tf.config.threading.get_intra_op_parallelism_threads() or "default",
            "inter_op": tf.config.threading.get_inter_op_parallelism_threads() or "default",
        },
    }


def _main(unused):
    options = flags.FLAGS
    table = variables.shapes(options.model)
    measured, updates = {"left_out": {}}, {}
    setting = {"clip_norm": options.clip_norm, "precision": options.precision}
    for name in options.optimizers:
        try:
            if options.repeats:
                updates[name] = Update(name, table, **setting)
            else:
                measured[name] = _first_call(name, table, setting)
        except ImportError as error:
            measured["left_out"][name] = str(error)
    if updates:
        measured.update(_side_by_side(updates, table, options.precision, options.repeats))
    measured["process_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(options.results, "w", encoding="utf-8") as file:
        json.dump(measured, file)


if __name__ == "__main__":
    command.execute(_main)
