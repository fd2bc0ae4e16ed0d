"""Rows of the sweeps of Adasum: data-parallel workers whose gradients are averaged, summed or combined."""

from collections.abc import Callable, Mapping, Sequence

from tfbigbatch import sweeps
from tfbigbatch.config import Config


def with_adasum(config: Config, workers: int) -> Config:
    """A copy of an experiment, whose batch is the sum over the workers, with Adasum on simulated replicas."""
    config = sweeps.scaled(config, config.batch_size, config.schedule.rule)
    config.optimizer = {**config.optimizer.to_dict(), "adasum": True}
    config.simulated_replicas = workers
    return config


def add_workers(
    table: sweeps.Sweep,
    name: str,
    config: Config,
    workers: int,
    *,
    seeds: Sequence[int] | Callable[[str], Sequence[int]],
    tuned: str = "",
    times: Mapping[str, Sequence[float]] | None = None,
    on_one_device: bool = True,
) -> None:
    """Adds rows for data-parallel workers: gradients averaged, summed, and combined by Adasum.

    All use one worker's learning rate. The averaged gradient is that of the whole batch, so that row runs on one
    device, unless batch normalisation makes the workers differ. The sum is the average at `workers` times the learning
    rate.

    Args:
      table: the sweep.
      name: prefix of the rows' names.
      config: the experiment of one worker.
      workers: number of them; each has the batch size of `config`.
      seeds: as in `Sweep.add`, or a function from a row's name to its seeds.
      tuned: as in `Sweep.add`.
      times: further factors of the learning rate, a row each, as {"average": (2, 4), "Adasum": (0.5,)}. Their names
        end in "x2".
      on_one_device: False where the examples of a batch interact: all rows then run on simulated replicas.
    """
    averaged = sweeps.scaled(config, config.batch_size * workers, "none")
    averaged.simulated_replicas = 0 if on_one_device else workers
    rows = {"average": averaged, "sum": sweeps.scaled(averaged, averaged.batch_size, "linear")}
    rows["Adasum"] = with_adasum(averaged, workers)
    for method, factors in (times or {}).items():
        for factor in factors:
            learning_rate = factor * averaged.schedule.learning_rate
            rows[f"{method}, x{factor:g}"] = sweeps.scaled(
                rows[method], averaged.batch_size, "none", learning_rate=learning_rate
            )
    for method, row in rows.items():
        row_name = f"{name}, {method}"
        table.add(row_name, row, seeds=seeds(row_name) if callable(seeds) else seeds, tuned=tuned)
