"""One update of our optimizers and of their peers: its time, its first call and its memory.

    python benchmarks/optimizers.py --variables=resnet50
    python benchmarks/optimizers.py --variables=bert_base --peers=tfa_lamb,keras_lamb --results=bert_base.json
    python benchmarks/optimizers.py --variables=bert_base --peers=optax_lamb,optax_muon --updates=20

Each peer has a process, and so has ours of the same rule; the two take turns, one update each, with a stream through
memory. Its bandwidth gives the floor: an update must at least move its bytes. The memory is that of the process at its
highest, slots and all, above what it held before the optimizer's `build`. Peers that are not installed are left out.
Optimizers of one rule must end at the same weights.

TensorFlow's are timed on the CPU; the peer of an optimizer of optax is ours of Keras 3 on JAX, on the GPU where there
is one. There --updates in a row are timed, so that it is the GPU and not the calls; floor and memory are the host's.
optax's Muon gets our table of matrices; by itself it would orthogonalise embeddings too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import harness
import numpy as np
import updates
import variables

RATE, DECAY, EXCLUDED = 1e-3, 0.01, ["bias", "gamma", "beta"]
_STREAM_BYTES = 2**28
# Keras 2 where addons looks for tf.keras; the CPU only.
_TENSORFLOW = {"TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
# Two processes share the GPU.
_JAX = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


# Bytes that an update must move for each float32 parameter, by its rule.
FLOORS = {
    "lamb": 40,  # reads g, m, v, w, writes m, v; then reads m, v, w, writes w
    "lars": 28,  # reads g, w; then reads g, w, v, writes w, v
    "adam": 28,  # reads g, m, v, w, writes m, v, w
    "muon": 20,  # reads g, m, w, writes m, w; the products are not counted
    # Reads g, w, both momenta, statistics, roots, writes all but g; the statistics and the roots of ResNet-50 are 1.5
    # numbers a parameter each.
    "shampoo": 52,
}


class Contender(NamedTuple):
    """An optimizer to time.

    Attributes:
      rule: of FLOORS.
      ours: the contender beside which it is timed.
      make: gives it for the variables of a model; ImportError without its package.
      keras: 'tf_keras' or 'keras3', on TensorFlow, or 'jax'.
    """

    rule: str
    ours: str
    make: Callable[[str], Any]
    keras: str = "tf_keras"


def _made(module: str, name: str, **arguments: Any) -> Callable[[str], Any]:
    return lambda model: getattr(importlib.import_module(module), name)(RATE, **arguments)


def _ours(face: str, name: str, **arguments: Any) -> Callable[[str], Any]:
    fields = {"weight_decay": DECAY, "exclude_from_weight_decay": EXCLUDED, **arguments}
    return _made(f"tfbigbatch.{face}", name, **fields)


def _tfm(file: str, name: str) -> Callable[[str], Any]:
    fields = {"weight_decay_rate": DECAY, "exclude_from_weight_decay": EXCLUDED}
    return _made(f"official.modeling.optimization.{file}", name, **fields)


def _tfa_lamb(model: str) -> Any:
    # Addons looks for Keras 2 under names that Keras 3 has taken; it must find `tf_keras` there.
    for module in ("engine", "engine.keras_tensor"):
        sys.modules.setdefault(f"keras.src.{module}", importlib.import_module(f"tf_keras.src.{module}"))
    import tensorflow_addons

    return tensorflow_addons.optimizers.LAMB(RATE, weight_decay=DECAY, exclude_from_weight_decay=EXCLUDED)


def _keras_lamb(model: str) -> Any:
    import keras

    optimizer = keras.optimizers.Lamb(RATE, weight_decay=DECAY, epsilon=1e-6)
    # It knows no exclusion from the layer adaptation.
    optimizer.exclude_from_weight_decay(var_names=EXCLUDED)
    return optimizer


def _optax_muon(model: str) -> Any:
    """With our table of matrices: the axes of the rows and the columns of each variable, None where Adam takes it."""
    from optax import contrib

    from tfbigbatch.optimizers import matrices

    views = matrices.views(*zip(*variables.shapes(model)))
    # No gates or groups in these models: a view's axes are the variable's.
    numbers = [view and contrib.MuonDimensionNumbers(view.rows, view.columns) for view in views]
    decays = {"weight_decay": DECAY, "adam_weight_decay": DECAY}
    return contrib.muon(RATE, **decays, muon_weight_dimension_numbers=numbers)


def _on_jax(rule: str, name: str, theirs: Callable[[str], Any] | None = None, **fields: Any) -> dict[str, Contender]:
    """Ours of Keras 3, without exclusions, as optax has none, and optax's."""
    made = {
        "jax": _made("tfbigbatch.optimizers.keras3", name, weight_decay=DECAY, **fields),
        "optax": theirs or _made("optax", name.lower(), weight_decay=DECAY),
    }
    ours = f"jax_{name.lower()}"
    return {f"{of}_{name.lower()}": Contender(rule, ours, make, "jax") for of, make in made.items()}


CONTENDERS = {
    "lamb": Contender("lamb", "lamb", _ours("keras2", "LAMB")),
    "lars": Contender("lars", "lars", _ours("keras2", "LARS")),
    "shampoo": Contender("shampoo", "shampoo", _ours("keras2", "Shampoo")),
    # Most of its steps compute no roots.
    "shampoo_100": Contender("shampoo", "shampoo", _ours("keras2", "Shampoo", root={"every": 100})),
    "keras3_lamb": Contender("lamb", "lamb", _ours("optimizers.keras3", "LAMB"), "keras3"),
    "keras3_lars": Contender("lars", "lars", _ours("optimizers.keras3", "LARS"), "keras3"),
    "tfm_lamb": Contender("lamb", "lamb", _tfm("lamb", "LAMB")),
    "tfm_lars": Contender("lars", "lars", _tfm("lars", "LARS")),
    "tfa_lamb": Contender("lamb", "lamb", _tfa_lamb),
    "keras_lamb": Contender("lamb", "lamb", _keras_lamb, "keras3"),
    "keras_adam": Contender("adam", "lamb", _made("keras.optimizers", "Adam"), "keras3"),
    "tf_keras_adam": Contender("adam", "lamb", _made("tf_keras.optimizers", "Adam")),
    "legacy_adam": Contender("adam", "lamb", _made("tf_keras.optimizers.legacy", "Adam")),
    **_on_jax("lamb", "LAMB", exclude_from_weight_decay=[]),
    **_on_jax("lars", "LARS", exclude_from_weight_decay=[], form="tfm"),
    **_on_jax("adam", "AdamW"),
    **_on_jax("muon", "Muon", _optax_muon, exclude_from_weight_decay=[]),
}


# --------------------------------------------------------------------------------------------- a contender's process


def _answers(given: argparse.Namespace) -> Callable[[str], Any]:
    """Answers 'turn' with the seconds of an update, 'first' with those of the first and the memory, 'sum' with the
    absolute sum of all weights.
    """
    contender = CONTENDERS[given.worker]
    update = updates.of(lambda: contender.make(given.variables), given.variables, contender.keras)

    def answer(line: str) -> Any:
        if line == "sum":
            return float(sum(np.abs(np.asarray(each)).sum(dtype=np.float64) for each in update.values()))
        if line == "first":
            return {"first_call": update.timed()["seconds"], "memory": update.memory()}
        return update.timed(given.updates)

    return answer


def _stream() -> Callable[[], harness.Figures]:
    """A function that takes the bandwidth of an addition in place: two arrays are read, one of them written."""
    total, delta = (np.full(_STREAM_BYTES // 4, value, np.float32) for value in (1.0, 1e-9))

    def bandwidth() -> harness.Figures:
        seconds = harness.timed(lambda: np.add(total, delta, out=total))["seconds"]
        return {"bytes_per_second": 3 * _STREAM_BYTES / seconds}

    return bandwidth


# ------------------------------------------------------------------------------------------------------- the command


def _measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """The figures of a contender and of ours, in turn."""
    names = list(dict.fromkeys([CONTENDERS[name].ours, name]))
    environment = {**(_JAX if CONTENDERS[name].keras == "jax" else _TENSORFLOW), "PYTHONPATH": harness.ROOT}
    with contextlib.ExitStack() as stack:
        workers: dict[str, harness.Worker] = {}
        for each in names:
            arguments = [os.path.abspath(__file__), *sys.argv[1:], f"--worker={each}"]
            worker = harness.Worker(arguments, environment=environment)
            workers[each] = stack.enter_context(contextlib.closing(worker))
            worker.ask()
        first = {each: worker.ask("first") for each, worker in workers.items()}
        turns = {each: lambda worker=worker: worker.ask("turn") for each, worker in workers.items()}
        rounds = harness.in_turns({**turns, "stream": _stream()}, given.rounds, warm_ups=2, say=lambda line: None)
        sums = {each: worker.ask("sum") for each, worker in workers.items()}
    return {"first": first, "rounds": rounds, "sums": sums}


def _row(name: str, found: dict[str, Any], parameters: int) -> list[str]:
    rounds, first = found["rounds"], found["first"][name]
    ours, middle = rounds[CONTENDERS[name].ours], harness.medians(rounds[name])
    moved = FLOORS[CONTENDERS[name].rule] * parameters
    floors = [{"seconds": moved / each["bytes_per_second"]} for each in rounds["stream"]]
    return [
        name,
        f"{1e3 * middle['seconds']:.2f}",
        f"{1e3 * middle['cpu_seconds']:.2f}",
        f"{harness.ratio(ours, rounds[name], 'seconds'):.2f}",
        f"{harness.ratio(floors, rounds[name], 'seconds'):.2f}",
        f"{first['first_call']:.2f}",
        f"{first['memory'] / 1e6:.1f}",
    ]


def main() -> None:
    """Measures, prints the table, writes the file."""
    parser = harness.parser(__doc__)
    parser.add_argument("--variables", required=True, choices=variables.MODELS, help="of this network")
    parser.add_argument("--peers", type=harness.some_of(CONTENDERS), default=list(CONTENDERS), help="contenders")
    parser.add_argument("--rounds", type=int, default=15, help="timed, after two to warm up (15)")
    parser.add_argument("--updates", type=int, default=1, help="in a row in one timing (1)")
    parser.add_argument("--results", help="also write the figures to this JSON file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return harness.serve(lambda: _answers(given))
    table = variables.shapes(given.variables)
    parameters, measured, rows = variables.count(table), {}, []
    print(f"{given.variables}: {len(table)} variables, {parameters:,} parameters", flush=True)
    for name in given.peers:
        try:
            measured[name] = _measure(name, given)
        except RuntimeError as error:
            if "Error: No module named" not in str(error):
                raise
            print(f"{name}: left out, {str(error).strip().splitlines()[-1]}", flush=True)
            continue
        rows.append(_row(name, measured[name], parameters))
        print(" ".join(rows[-1]), flush=True)
        harness.write(given.results, setting=vars(given), parameters=parameters, measured=measured)
    headings = ["", "ms", "ms of all cores", "times ours", "times the floor", "first call, s", "peak memory, MB"]
    print(harness.table(headings, rows))


if __name__ == "__main__":
    main()
