"""A step of Muon beside Keras', optax's and torch's on a model's matrices, and the rate of its products.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/muon.py --model=resnet50 --results=results/optimizers/muon_resnet50.json

All get the same matrices [rows, columns] (convolutions as [h w c_in, c_out], which not every peer would make of them)
and gradients, Nesterov momentum 0.95, five quintic steps, the scale 'rms' and decay 0.01. They take turns on one core,
round after round, beside a product of two [2048, 2048] matrices, which tells the core's own rate. Times are the
process' CPU seconds: other processes change them little. torch is timed where it is installed; its products are of
bfloat16, so that it is comparable with 'tfbigbatch, bfloat16' alone. With triton, it crashes beside TensorFlow: install
torch for the CPU.
"""

import contextlib
import functools
import importlib
import os
import statistics
import time

import numpy as np
import results_file
import variables
from absl import flags

from tfbigbatch.utils import command

_RATE, _DECAY, _MOMENTUM, _STEPS = 0.02, 0.01, 0.95, 5
_PRODUCT = 2048

flags.DEFINE_enum("model", None, variables.models(), "Whose matrices are updated.", required=True)
flags.DEFINE_integer("repeats", 5, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")


def matrix_shapes(model):
    """(name, (rows, columns)) of each matrix that Muon makes of a model's variables."""
    from tfbigbatch.optimizers import matrices

    paths, shapes = zip(*variables.shapes(model))
    views = zip(paths, matrices.views(paths, shapes))
    return [(path, view.matrix_shape[1:]) for path, view in views if view is not None]


class Keras3:
    """An optimizer of Keras 3, in one tf.function."""

    def __init__(self, optimizer, weights, gradients):
        import keras
        import tensorflow as tf

        self._variables = [keras.Variable(value, name=name) for name, value in weights]
        self._gradients = [tf.constant(gradient) for gradient in gradients]
        optimizer.build(self._variables)

        @tf.function
        def step(gradients):
            optimizer.apply_gradients(zip(gradients, self._variables))
            return tf.convert_to_tensor(optimizer.iterations)

        self._step = step

    def __call__(self):
        # On the CPU the number is there when all operations have run.
        int(self._step(self._gradients))

    def weights(self):
        return [np.array(variable) for variable in self._variables]


class Optax:
    """An optax transformation, compiled by JAX."""

    def __init__(self, transformation, weights, gradients):
        import jax
        import optax

        self._names = [name for name, _ in weights]
        self._weights = {name: jax.numpy.array(value) for name, value in weights}
        self._gradients = {name: jax.numpy.array(gradient) for (name, _), gradient in zip(weights, gradients)}
        self._state = transformation.init(self._weights)

        @functools.partial(jax.jit, donate_argnums=(1, 2))
        def step(gradients, state, weights):
            updates, state = transformation.update(gradients, state, weights)
            return optax.apply_updates(weights, updates), state

        self._step, self._ready = step, jax.block_until_ready

    def __call__(self):
        self._weights, self._state = self._step(self._gradients, self._state, self._weights)
        self._ready((self._weights, self._state))

    def weights(self):
        # JAX sorts a dictionary's names.
        return [np.array(self._weights[name]) for name in self._names]


class Torch:
    """An optimizer of torch. Its kernels are [out, in], so it gets the transposes."""

    def __init__(self, make, weights, gradients):
        import torch

        torch.set_num_threads(1)
        self._parameters = [torch.nn.Parameter(torch.tensor(value.T.copy())) for _, value in weights]
        for parameter, gradient in zip(self._parameters, gradients):
            parameter.grad = torch.tensor(gradient.T.copy())
        self._optimizer = make(self._parameters)

    def __call__(self):
        self._optimizer.step()

    def weights(self):
        return [parameter.detach().numpy().T for parameter in self._parameters]


def _ours(weights, gradients, **arguments):
    from tfbigbatch.optimizers import keras3

    return Keras3(keras3.Muon(_RATE, weight_decay=_DECAY, **arguments), weights, gradients)


def _keras(weights, gradients):
    import keras

    optimizer = keras.optimizers.Muon(_RATE, weight_decay=_DECAY, momentum=_MOMENTUM, exclude_embeddings=False)
    return Keras3(optimizer, weights, gradients)


def _optax(weights, gradients):
    import optax

    numbers = {name: optax.contrib.MuonDimensionNumbers(0, 1) for name, _ in weights}
    transformation = optax.contrib.muon(
        _RATE, weight_decay=_DECAY, consistent_rms=0.2, muon_weight_dimension_numbers=numbers
    )
    return Optax(transformation, weights, gradients)


def _torch(weights, gradients):
    import torch

    def make(parameters):
        return torch.optim.Muon(parameters, lr=_RATE, weight_decay=_DECAY, adjust_lr_fn="match_rms_adamw")

    return Torch(make, weights, gradients)


CONTENDERS = {
    "tfbigbatch": _ours,
    "tfbigbatch, bfloat16": functools.partial(_ours, product_dtype="bfloat16"),
    "keras": _keras,
    "optax": _optax,
    "torch": _torch,
}


def _pin():
    """Keeps the process on one core, where the system can: the peers' libraries count threads in their own ways."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _seconds(function):
    """(CPU seconds, seconds) of a call."""
    start, used = time.perf_counter(), time.process_time()
    function()
    return time.process_time() - used, time.perf_counter() - start


def measure(model, repeats):
    """CPU seconds and seconds of each contender's steps, and what changed in the weights.

    Returns:
      (times, differences, left_out): {name: [(CPU seconds, seconds)] of each round}, the product's under 'product';
      {name: difference of its weights from ours over our change, root mean squares}; {name: why it was left out}.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("torch")  # After TensorFlow it crashes.
    import tensorflow as tf

    random = np.random.default_rng(0)
    shapes = matrix_shapes(model)
    weights = [(name.replace("/", "_"), 0.05 * random.standard_normal(shape, np.float32)) for name, shape in shapes]
    gradients = [0.01 * random.standard_normal(shape, np.float32) for _, shape in shapes]
    contenders, left_out = {}, {}
    for name, make in CONTENDERS.items():
        try:
            contenders[name] = make(weights, gradients)
        except (ImportError, AttributeError) as error:
            left_out[name] = str(error)
    square = tf.random.stateless_normal([_PRODUCT, _PRODUCT], [0, 0])
    calls = {**contenders, "product": lambda: tf.matmul(square, square).numpy()}
    times = {name: [] for name in calls}
    for number in range(repeats + 1):
        for name, call in calls.items():
            measured = _seconds(call)
            if number:
                times[name].append(measured)
        print(f"round {number} of {repeats}" if number else "warmed up", flush=True)
    ours = contenders["tfbigbatch"].weights()
    change = [after - before for after, (_, before) in zip(ours, weights)]
    differences = {
        name: _size([one - other for one, other in zip(contender.weights(), ours)]) / _size(change)
        for name, contender in contenders.items()
    }
    return times, differences, left_out


def _size(arrays):
    return float(np.sqrt(sum(np.sum(np.square(array, dtype=np.float64)) for array in arrays)))


def summary(model, times):
    """Medians of the rounds; ratios are taken within a round.

    Returns:
      {name: {"cpu_s", "s", "over_ours", "gflop", "share_of_product_rate"}}, the last two of ours in float32 alone.
    """
    from tfbigbatch.optimizers import orthogonalization

    gflop = sum(orthogonalization.flops(*shape, _STEPS) for _, shape in matrix_shapes(model)) / 1e9
    ours, product = (np.array([cpu for cpu, _ in times[name]]) for name in ("tfbigbatch", "product"))
    rate = 2 * _PRODUCT**3 / 1e9 / product
    rows = {}
    for name, measured in times.items():
        cpu, seconds = np.array(measured).T
        rows[name] = {"cpu_s": float(np.median(cpu)), "s": float(np.median(seconds))}
        if name != "product":
            rows[name]["over_ours"] = float(np.median(cpu / ours))
    rows["tfbigbatch"].update(gflop=gflop, share_of_product_rate=float(np.median(gflop / ours / rate)))
    rows["product"]["gflop_per_s"] = statistics.median(rate)
    return rows


def _main(unused):
    options = flags.FLAGS
    results_file.check(options.results)
    _pin()
    times, differences, left_out = measure(options.model, options.repeats)
    rows = summary(options.model, times)
    print(f"{options.model}, {len(matrix_shapes(options.model))} matrices; medians of {options.repeats} rounds")
    for name, reason in left_out.items():
        print(f"{name}: left out: {reason}")
    print(f"{'':<22}{'CPU s':>8}{'s':>8}{'times ours':>12}{'difference':>12}")
    for name, row in rows.items():
        ratio = f"{row['over_ours']:.2f}" if "over_ours" in row else ""
        difference = f"{differences[name]:.1e}" if name in differences else ""
        print(f"{name:<22}{row['cpu_s']:>8.3f}{row['s']:>8.3f}{ratio:>12}{difference:>12}")
    ours, rate = rows["tfbigbatch"], rows["product"]["gflop_per_s"]
    print(
        f"a product runs at {rate:.0f} GFLOP/s; ours, {ours['gflop']:.0f} GFLOP, at {ours['share_of_product_rate']:.2f}"
    )
    arguments = [f"--model={options.model}", f"--repeats={options.repeats}"]
    measured = {"summary": rows, "differences": differences, "left_out": left_out, "times": times}
    results_file.write(options.results, "muon.py", arguments, **measured)


if __name__ == "__main__":
    command.execute(_main)
