"""How many training examples a second a core prepares: the input of any experiment, by itself.

    python benchmarks/input.py --config=experiments/bert/lamb.py:512 --data_dir=data/bert_prepared \\
      --results=input_bert.json

Batches of the task's own pipeline are read and thrown away. A figure is the median of all turns: examples a second, and
examples a second of processor time over all threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import harness

from tfbigbatch.config import recipe

_UNTIMED = 2


def training_data(config: str, *, data_dir: str | None, phase: int = 1, overrides: tuple[str, ...] = ()) -> Any:
    """The training data of an experiment's task, made up where there is no folder.

    Args:
      config: an experiment file, or its name.
      data_dir: where the task's data lies.
      phase: of a run with phases.
      overrides: FIELD=VALUE for the config.

    Raises:
      ValueError: there is no such phase.
    """
    from tfbigbatch import tasks
    from tfbigbatch.config import load_config, override
    from tfbigbatch.errors import InputError

    fields = load_config(config)
    override(fields, overrides)
    phases = recipe.phases(fields)
    if phase > len(phases):
        raise InputError(f"--phase={phase}: the run has {len(phases)} phase(s), counted from 1.")
    fields = phases[phase - 1]
    data = {"data_dir": data_dir, "use_fake_data": data_dir is None}
    return tasks.get(fields.task)(model=fields.model.to_dict(), data=fields.data.to_dict(), **data).train


def batches(train: Any, batch_size: int, *, count: int = 1_000_000, first: int = 0, seed: int = 0) -> Iterator[Any]:
    """The training batches of `count` steps, after two that fill the buffers."""
    import tensorflow as tf

    last = first + count + _UNTIMED + 1
    read = train.training_batches(
        tf.distribute.InputContext(1, 0, 1), batch_size=batch_size, seed=seed, first_step=first, last_step=last
    )
    return itertools.islice(iter(read), _UNTIMED, None)


def main() -> None:
    """Reads, prints the rates, writes the file."""
    parser = harness.parser(__doc__)
    parser.add_argument("--config", required=True, help="experiment")
    parser.add_argument("--override", action="append", default=[], help="FIELD=VALUE of it, as data.image_size=160")
    parser.add_argument("--phase", type=int, default=1, help="of a run with phases")
    parser.add_argument("--data_dir", help="where the task's data lies; made-up examples where left out")
    parser.add_argument("--batch_size", type=int, default=256, help="examples in a batch")
    parser.add_argument("--batches", type=int, default=40, help="timed batches in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--results", help="also write the figures to this JSON file")
    given = parser.parse_args()
    train = training_data(given.config, data_dir=given.data_dir, phase=given.phase, overrides=tuple(given.override))
    turns = []
    for seed in range(given.turns):
        read = batches(train, given.batch_size, count=given.batches, seed=seed)
        turns.append(harness.timed(lambda: [next(read) for _ in range(given.batches)]))
    examples, middle = given.batches * given.batch_size, harness.medians(turns)
    rates = {"examples_per_second": examples / middle["seconds"]}
    rates["examples_per_second_of_core"] = examples / middle["cpu_seconds"]
    print(f"{given.config}, phase {given.phase}: {given.turns} turns of {given.batches} x {given.batch_size}")
    print(f"{rates['examples_per_second']:12,.0f} examples a second")
    print(f"{rates['examples_per_second_of_core']:12,.0f} examples a second of a core")
    harness.write(given.results, setting=vars(given), median=rates, turns=turns)


if __name__ == "__main__":
    main()
