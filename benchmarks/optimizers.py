"""One update of our optimizers and of their peers: its time, its first call and its memory, on the CPU.

    python benchmarks/optimizers.py --variables=resnet50
    python benchmarks/optimizers.py --variables=bert_base --peers=tfa_lamb,keras_lamb --results=bert_base.json

Each peer has a process, and so has ours of the same rule; the two take turns, one update each, with a stream through
memory. Its bandwidth gives the floor: an update must at least move its bytes. Peers that are not installed are left
out. Optimizers of one rule must end at the same weights.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import harness
import numpy as np
import variables

RATE, DECAY, EXCLUDED = 1e-3, 0.01, ["bias", "gamma", "beta"]
_STREAM_BYTES = 2**28
# Keras 2 where addons looks for tf.keras; the CPU only.
_ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}


class Rule(NamedTuple):
    """An update rule: our contender of it, the bytes an update must move for each float32 parameter, and why."""

    ours: str
    floor_bytes: int
    passes: str


RULES = {
    "lamb": Rule("lamb", 40, "reads g, m, v, w, writes m, v; then reads m, v, w, writes w"),
    "lars": Rule("lars", 28, "reads g, w; then reads g, w, v, writes w, v"),
    "adam": Rule("lamb", 28, "reads g, m, v, w, writes m, v, w"),
    # Statistics and roots of ResNet-50 are 1.5 numbers a parameter each.
    "shampoo": Rule("shampoo", 52, "reads g, w, both momenta, statistics, roots, writes all but g"),
}


class Contender(NamedTuple):
    """An optimizer to time: its key of RULES, its constructor (ImportError without the package), its Keras."""

    rule: str
    make: Callable[[], Any]
    keras: str = "tf_keras"


def _made(module: str, name: str, **arguments: Any) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(module), name)(RATE, **arguments)


def _ours(face: str, name: str, **arguments: Any) -> Callable[[], Any]:
    fields = {"weight_decay": DECAY, "exclude_from_weight_decay": EXCLUDED, **arguments}
    return _made(f"tfbigbatch.{face}", name, **fields)


def _tfm(file: str, name: str) -> Callable[[], Any]:
    fields = {"weight_decay_rate": DECAY, "exclude_from_weight_decay": EXCLUDED}
    return _made(f"official.modeling.optimization.{file}", name, **fields)


def _tfa_lamb() -> Any:
    # Addons looks for Keras 2 under names that Keras 3 has taken; it must find `tf_keras` there.
    for module in ("engine", "engine.keras_tensor"):
        sys.modules.setdefault(f"keras.src.{module}", importlib.import_module(f"tf_keras.src.{module}"))
    import tensorflow_addons

    return tensorflow_addons.optimizers.LAMB(RATE, weight_decay=DECAY, exclude_from_weight_decay=EXCLUDED)


def _keras_lamb() -> Any:
    import keras

    optimizer = keras.optimizers.Lamb(RATE, weight_decay=DECAY, epsilon=1e-6)
    # It knows no exclusion from the layer adaptation.
    optimizer.exclude_from_weight_decay(var_names=EXCLUDED)
    return optimizer


CONTENDERS = {
    "lamb": Contender("lamb", _ours("keras2", "LAMB")),
    "lars": Contender("lars", _ours("keras2", "LARS")),
    "shampoo": Contender("shampoo", _ours("keras2", "Shampoo")),
    # Most of its steps compute no roots.
    "shampoo_100": Contender("shampoo", _ours("keras2", "Shampoo", root={"every": 100})),
    "keras3_lamb": Contender("lamb", _ours("optimizers.keras3", "LAMB"), keras="keras3"),
    "keras3_lars": Contender("lars", _ours("optimizers.keras3", "LARS"), keras="keras3"),
    "tfm_lamb": Contender("lamb", _tfm("lamb", "LAMB")),
    "tfm_lars": Contender("lars", _tfm("lars", "LARS")),
    "tfa_lamb": Contender("lamb", _tfa_lamb),
    "keras_lamb": Contender("lamb", _keras_lamb, keras="keras3"),
    "keras_adam": Contender("adam", _made("keras.optimizers", "Adam"), keras="keras3"),
    "tf_keras_adam": Contender("adam", _made("tf_keras.optimizers", "Adam")),
    "legacy_adam": Contender("adam", _made("tf_keras.optimizers.legacy", "Adam")),
}


# --------------------------------------------------------------------------------------------- a contender's process


def _updates(given: argparse.Namespace) -> Callable[[str], Any]:
    """Answers 'turn' with the seconds of an update, 'first' with those and the memory of the first, 'sum' with the
    absolute sum of all weights.
    """
    import tensorflow as tf

    contender = CONTENDERS[given.worker]
    optimizer, made = contender.make(), variables.make(given.variables, contender.keras)
    if hasattr(optimizer, "_create_all_weights"):  # tf_keras' legacy base class
        optimizer._create_all_weights(made)
    else:
        optimizer.build(made)
    # Arguments of every update, so that nothing folds them away.
    gradients = [tf.constant(variables.noise(each.shape, 1000 + index, 0.01)) for index, each in enumerate(made)]

    @tf.function
    def apply(gradients: Any) -> Any:
        optimizer.apply_gradients(zip(gradients, made))
        return tf.convert_to_tensor(optimizer.iterations)

    # On the CPU the call returns when all operations have run; the count says that they did.
    def turn() -> harness.Figures:
        return harness.timed(lambda: int(apply(gradients)))

    def answer(line: str) -> Any:
        if line == "sum":
            return float(sum(tf.reduce_sum(tf.abs(tf.convert_to_tensor(each))) for each in made))
        if line == "first":
            return {"first_call": turn()["seconds"], "peak_growth": _peak_growth(lambda: [turn() for _ in range(3)])}
        return turn()

    return answer


def _peak_growth(action: Callable[[], object]) -> int | None:
    """Bytes that TensorFlow's allocator held at its highest during `action`, above what it held before.

    The process' resident memory would not tell: the allocator keeps what is freed. None where TensorFlow does not
    count, as without oneDNN.
    """
    import tensorflow as tf

    gc.collect()
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
        before = tf.config.experimental.get_memory_info("CPU:0")["current"]
        action()
        return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before
    except ValueError:
        return None


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
    names = list(dict.fromkeys([RULES[CONTENDERS[name].rule].ours, name]))
    workers: dict[str, harness.Worker] = {}
    try:
        for each in names:
            arguments = [os.path.abspath(__file__), *sys.argv[1:], f"--worker={each}"]
            workers[each] = harness.Worker(arguments, environment={**_ENVIRONMENT, "PYTHONPATH": harness.ROOT})
            workers[each].ask()
        first = {each: worker.ask("first") for each, worker in workers.items()}
        turns = {each: lambda worker=worker: worker.ask("turn") for each, worker in workers.items()}
        rounds = harness.in_turns({**turns, "stream": _stream()}, given.rounds, warm_ups=2, say=lambda line: None)
        sums = {each: worker.ask("sum") for each, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.close()
    return {"rule": CONTENDERS[name].rule, "first": first, "rounds": rounds, "sums": sums}


def _row(name: str, found: dict[str, Any], parameters: int) -> list[str]:
    rule, rounds = RULES[found["rule"]], found["rounds"]
    ours, middle = rounds[rule.ours], harness.medians(rounds[name])
    floors = [{"seconds": rule.floor_bytes * parameters / each["bytes_per_second"]} for each in rounds["stream"]]
    growth = found["first"][name]["peak_growth"]
    return [
        name,
        f"{1e3 * middle['seconds']:.2f}",
        f"{1e3 * middle['cpu_seconds']:.2f}",
        f"{harness.ratio(ours, rounds[name], 'seconds'):.2f}",
        f"{harness.ratio(floors, rounds[name], 'seconds'):.2f}",
        f"{found['first'][name]['first_call']:.2f}",
        "" if growth is None else f"{growth / 1e6:.1f}",
    ]


def main() -> None:
    """Measures, prints the table, writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", required=True, choices=variables.MODELS, help="of this network")
    parser.add_argument("--peers", default=",".join(CONTENDERS), help="contenders, with commas between")
    parser.add_argument("--rounds", type=int, default=15, help="timed, after two to warm up (15)")
    parser.add_argument("--results", help="also write the figures to this JSON file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return harness.serve(lambda: _updates(given))
    names = given.peers.split(",")
    if unknown := set(names) - set(CONTENDERS):
        parser.error(f"--peers={','.join(sorted(unknown))}: expected some of {', '.join(CONTENDERS)}")
    table = variables.shapes(given.variables)
    parameters, measured, rows = variables.count(table), {}, []
    print(f"{given.variables}: {len(table)} variables, {parameters:,} parameters", flush=True)
    for name in names:
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
    headings = ["", "ms", "ms of all cores", "times ours", "times the floor", "first call, s", "extra peak memory, MB"]
    print(harness.table(headings, rows))
    for rule in dict.fromkeys(found["rule"] for found in measured.values()):
        moved, passes = RULES[rule].floor_bytes, RULES[rule].passes
        print(f"floor of {rule}: {moved} bytes a parameter ({passes}) at the bandwidth of an addition")


if __name__ == "__main__":
    main()
