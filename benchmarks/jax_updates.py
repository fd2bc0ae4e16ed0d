"""One step of LARS, LAMB, Muon and AdamW of Keras 3 on JAX beside optax's, on a model's variables, compiled by XLA.

    python benchmarks/jax_updates.py --model=bert_base --results=jax_updates.json

Both take turns, round after round, in one process; ratios are taken within a round. Times are the process' CPU seconds,
which other processes change little, and seconds by the clock; on a GPU by the clock alone, of --updates in a row, that
the GPU is timed and not the calls. Weights and state are donated, as a training step does.
optax's Muon gets our table of matrices; by itself it would orthogonalise embeddings too.
"""

import contextlib
import os
import time

import numpy as np
import results_file
import variables
from absl import flags

from tfbigbatch.utils import command

flags.DEFINE_enum("model", "bert_base", variables.models(), "Whose variables are updated.")
flags.DEFINE_list("optimizers", ["lamb", "lars", "adamw"], "Of lamb, lars, adamw and muon.")
flags.DEFINE_integer("repeats", 5, "Timed rounds, after two to warm up.", lower_bound=1)
flags.DEFINE_integer("updates", None, "Steps in a row in one timing; 1 on a CPU, 20 on a GPU.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write all numbers to this JSON file.")

_RATE, _DECAY = 1e-3, 0.01
# As optax.
_EVERYWHERE = {"exclude_from_weight_decay": []}


def _ours(name, table):
    """(A step, its first values and state) of an optimizer of ours."""
    import keras

    from tfbigbatch.optimizers import keras3

    optimizer = {
        "lamb": lambda: keras3.LAMB(_RATE, weight_decay=_DECAY, **_EVERYWHERE),
        "lars": lambda: keras3.LARS(_RATE, weight_decay=_DECAY, form="tfm", **_EVERYWHERE),
        "adamw": lambda: keras3.AdamW(_RATE, weight_decay=_DECAY),
        "muon": lambda: keras3.Muon(_RATE, weight_decay=_DECAY, **_EVERYWHERE),
    }[name]()
    made = []
    for index, (path, shape) in enumerate(table):
        *layers, last = path.split("/")
        with contextlib.ExitStack() as scopes:
            for layer in layers:
                scopes.enter_context(keras.name_scope(layer))
            made.append(keras.Variable(_noise(shape, index), name=last))
    optimizer.build(made)
    state = [variable.value for variable in optimizer.variables]
    return (lambda values, state, gradients: optimizer.stateless_apply(state, gradients, values)), made, state


def _theirs(name, table):
    """As `_ours`, of optax."""
    import jax.numpy as jnp
    import optax

    optimizer = {
        "lamb": lambda: optax.lamb(_RATE, weight_decay=_DECAY),
        "lars": lambda: optax.lars(_RATE, weight_decay=_DECAY),
        "adamw": lambda: optax.adamw(_RATE, weight_decay=_DECAY),
        "muon": lambda: optax.contrib.muon(
            _RATE, weight_decay=_DECAY, adam_weight_decay=_DECAY, muon_weight_dimension_numbers=_matrices(table)
        ),
    }[name]()
    values = [jnp.asarray(_noise(shape, index)) for index, (_, shape) in enumerate(table)]

    def step(values, state, gradients):
        updates, state = optimizer.update(gradients, state, values)
        return optax.apply_updates(values, updates), state

    return step, values, optimizer.init(values)


def _matrices(table):
    """Of each variable, the axes of its rows and of its columns, as optax names them; None where Adam takes it."""
    from optax import contrib

    from tfbigbatch.optimizers import matrices

    paths, shapes = zip(*table)
    numbers = []
    for view in matrices.views(paths, shapes):
        if view is None:
            numbers.append(None)
            continue
        first, last = view.block_axes, view.block_axes + view.row_axes
        numbers.append(contrib.MuonDimensionNumbers(view.order[first:last], view.order[last:]))
    return numbers


def _noise(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(0.05)


class Update:
    """A compiled step on values of its own; calling it takes some and returns (seconds, the processors' seconds)."""

    def __init__(self, make, name, table):
        import jax

        step, values, state = make(name, table)
        self._values = [jax.numpy.array(getattr(value, "value", value)) for value in values]
        self._state = jax.tree.map(lambda each: jax.numpy.array(each), state)
        self._step = jax.jit(step, donate_argnums=(0, 1))

    def __call__(self, gradients, updates):
        """The seconds are of one of the updates in a row."""
        import jax

        start, used = time.perf_counter(), time.process_time()
        for _ in range(updates):
            self._values, self._state = self._step(self._values, self._state, gradients)
        jax.block_until_ready((self._values, self._state))
        return (time.perf_counter() - start) / updates, (time.process_time() - used) / updates


def _summary(rows, on_gpu):
    """Medians of the rounds: seconds of ours and of optax, and the ratios within a round."""
    clock, used = (
        {way: np.array([row[way][index] for row in rows]) for way in ("ours", "optax")} for index in range(2)
    )
    found = {
        "clock_s": float(np.median(clock["ours"])),
        "optax_clock_s": float(np.median(clock["optax"])),
        "clock_ratio": float(np.median(clock["ours"] / clock["optax"])),
    }
    if not on_gpu:
        found |= {
            "cpu_s": float(np.median(used["ours"])),
            "optax_cpu_s": float(np.median(used["optax"])),
            "cpu_ratio": float(np.median(used["ours"] / used["optax"])),
        }
    return found


def _main(unused):
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import jax.numpy as jnp

    options = flags.FLAGS
    results_file.check(options.results)
    device = jax.devices()[0]
    on_gpu = device.platform == "gpu"
    updates = options.updates or (20 if on_gpu else 1)
    table = variables.shapes(options.model)
    gradients = [jnp.asarray(_noise(shape, 1000 + index)) for index, (_, shape) in enumerate(table)]
    found, rounds = {}, {}
    rounds_of = f"{options.repeats} rounds of {updates}"
    print(f"{options.model}, {len(table)} variables, {device.device_kind}; medians of {rounds_of}")
    unit, other = ("clock, ms", "") if on_gpu else ("CPU s", "clock, ratio")
    print(f"{'':<8}{unit:>10}{'optax':>10}{'ratio':>8}{other:>14}")
    for name in options.optimizers:
        ways = {"ours": Update(_ours, name, table), "optax": Update(_theirs, name, table)}
        rows = [{way: update(gradients, updates) for way, update in ways.items()} for _ in range(options.repeats + 2)]
        rounds[name] = rows[2:]
        found[name] = _summary(rounds[name], on_gpu)
        if on_gpu:
            line = f"{1e3 * found[name]['clock_s']:>10.3f}{1e3 * found[name]['optax_clock_s']:>10.3f}"
            print(f"{name:<8}{line}{found[name]['clock_ratio']:>8.2f}", flush=True)
        else:
            line = "{cpu_s:>10.3f}{optax_cpu_s:>10.3f}{cpu_ratio:>8.2f}{clock_ratio:>14.2f}".format(**found[name])
            print(f"{name:<8}{line}", flush=True)
        del ways
    arguments = [f"--model={options.model}", f"--optimizers={','.join(options.optimizers)}"]
    arguments += [f"--repeats={options.repeats}", f"--updates={updates}"]
    content = {"device": device.device_kind, "jax": jax.__version__, "summary": found, "rounds": rounds}
    results_file.write(options.results, "jax_updates.py", arguments, **content)


if __name__ == "__main__":
    command.execute(_main)
