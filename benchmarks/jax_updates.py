"""One step of LARS, LAMB, Muon and AdamW of Keras 3 on JAX beside optax's, on a model's variables, compiled by XLA.

    python benchmarks/jax_updates.py --variables=bert_base --results=jax_updates.json

Both take turns, round after round, in one process; ratios are taken within a round. On a CPU the process' CPU seconds
say most, since other processes change them little; on a GPU those by the clock, of --updates in a row, so that the GPU
is timed and not the calls. Weights and state are donated, as a training step does.
optax's Muon gets our table of matrices; by itself it would orthogonalise embeddings too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import harness
import variables

_RATE, _DECAY = 1e-3, 0.01
_NAMES = ("lamb", "lars", "adamw", "muon")
Table = list[tuple[str, tuple[int, ...]]]


def _ours(name: str, model: str, table: Table) -> tuple[Any, Any, Any]:
    """A step, its first values and state, of an optimizer of ours, without exclusions, as optax has none."""
    from tfbigbatch.optimizers import keras3

    everywhere = {"exclude_from_weight_decay": []} if name != "adamw" else {}
    optimizer = {
        "lamb": lambda: keras3.LAMB(_RATE, weight_decay=_DECAY, **everywhere),
        "lars": lambda: keras3.LARS(_RATE, weight_decay=_DECAY, form="tfm", **everywhere),
        "adamw": lambda: keras3.AdamW(_RATE, weight_decay=_DECAY),
        "muon": lambda: keras3.Muon(_RATE, weight_decay=_DECAY, **everywhere),
    }[name]()
    made = variables.make(model, "keras3")
    optimizer.build(made)
    values, state = ([each.value for each in group] for group in (made, optimizer.variables))
    return (lambda values, state, gradients: optimizer.stateless_apply(state, gradients, values)), values, state


def _theirs(name: str, model: str, table: Table) -> tuple[Any, Any, Any]:
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
    values = [jnp.asarray(variables.noise(shape, index)) for index, (_, shape) in enumerate(table)]

    def step(values: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(gradients, state, values)
        return optax.apply_updates(values, updates), state

    return step, values, optimizer.init(values)


def _matrices(table: Table) -> list[Any]:
    """For each variable, the axes of its rows and of its columns, as optax names them; None where Adam takes it."""
    from optax import contrib

    from tfbigbatch.optimizers import matrices

    numbers: list[Any] = []
    for view in matrices.views(*zip(*table)):
        if view is None:
            numbers.append(None)
            continue
        first, last = view.block_axes, view.block_axes + view.row_axes
        numbers.append(contrib.MuonDimensionNumbers(view.order[first:last], view.order[last:]))
    return numbers


def _turn(made: tuple[Any, Any, Any], gradients: Any, updates: int) -> Callable[[], harness.Figures]:
    """A function of some compiled updates in a row, on values of its own; the figures are of one of them."""
    import jax

    step, *state = made
    step = jax.jit(step, donate_argnums=(0, 1))
    state = jax.tree.map(jax.numpy.array, state)

    def run() -> None:
        for _ in range(updates):
            state[:] = step(*state, gradients)
        jax.block_until_ready(state)

    return lambda: {name: value / updates for name, value in harness.timed(run).items()}


def main() -> None:
    """Measures, prints the table, writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", default="bert_base", choices=variables.MODELS, help="of this network")
    parser.add_argument("--optimizers", default="lamb,lars,adamw", help=f"some of {', '.join(_NAMES)}")
    parser.add_argument("--rounds", type=int, default=5, help="timed, after two to warm up (5)")
    parser.add_argument("--updates", type=int, help="in a row in one timing; 1 on a CPU, 20 on a GPU")
    parser.add_argument("--results", help="also write the figures to this JSON file")
    given = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import jax.numpy as jnp

    device = jax.devices()[0]
    updates = given.updates or (20 if device.platform == "gpu" else 1)
    table = variables.shapes(given.variables)
    gradients = [jnp.asarray(variables.noise(shape, 1000 + index)) for index, (_, shape) in enumerate(table)]
    found, rows = {}, []
    for name in given.optimizers.split(","):
        ways = {
            way: _turn(make(name, given.variables, table), gradients, updates)
            for way, make in (("ours", _ours), ("optax", _theirs))
        }
        found[name] = rounds = harness.in_turns(ways, given.rounds, warm_ups=2)
        cells = [name]
        for kind in ("seconds", "cpu_seconds"):
            cells += [f"{1e3 * harness.medians(rounds[way])[kind]:.3f}" for way in ways]
            cells.append(f"{harness.ratio(rounds['optax'], rounds['ours'], kind):.2f}")
        rows.append(cells)
    print(f"{given.variables}, {len(table)} variables, {device.device_kind}; medians of {given.rounds} of {updates}")
    print(harness.table(["", "ms", "optax", "ratio", "ms of all cores", "optax", "ratio"], rows))
    harness.write(given.results, setting=vars(given), device=device.device_kind, measured=found)


if __name__ == "__main__":
    main()
