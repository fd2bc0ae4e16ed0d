"""Local steps against data parallelism: 4 and 16 workers of the small batch each, and the same examples for all.

    tfbigbatch sweep --sweep=results/local_steps/sweep.py:mnist_lstm --data_dir=data/mnist --processes=2 \\
      --model_dir=runs/local_steps/mnist_lstm --results=results/local_steps/mnist_lstm \\
      --results_cache=results/local_steps/runs.jsonl.gz

`digits` (no data), `mnist_lstm`, `ptb` and `bert`, with the data of few_steps/sweep. Each optimizer is trained on
one worker; by 16 and 4 workers in data parallelism; and by as many with local steps: rounds of 1, 8 and 32 steps that
end in the mean, and rounds of 8 with Nesterov's outer step (DiLoCo), or with twice and four times the mean change.
Workers are simulated replicas of one machine: results/measurements/local_steps.md has seconds.

Nothing is tuned here. Several workers see as many examples as one, in a 4th or a 16th of the steps, so that their rows
take the square root of their number times one worker's learning rate, the rule of this project for these optimizers;
one row has one worker's, as DiLoCo does. What they say: docs/replicas.md.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config

EVERY = (1, 8, 32)
OUTER_LEARNING_RATES = (2, 4)


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title: of its table.
      base: the experiment file of the small batch.
      small: examples of a step of one worker.
      optimizers: the fields of each optimizer, and its learning rate at the small batch.
      evaluations: by number of workers, whole rounds of every length between two evaluations.
      fields: what differs from the base in every row.
      micro_batch: examples of one pass in data parallelism; 0 for the whole batch.
      seeds: of each row.
    """

    title: str
    base: str
    small: int
    optimizers: Mapping[str, tuple[Mapping[str, Any], float]]
    evaluations: Mapping[int, str]
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    micro_batch: int = 0
    seeds: Sequence[int] = (0,)


def _optimizers(adamw: float, lamb: float, muon: float, **fields: Any) -> dict[str, tuple[dict[str, Any], float]]:
    return {
        "AdamW": ({"name": "adamw", "beta_2": 0.99, **fields}, adamw),
        "LAMB": ({"name": "lamb", "beta_2": 0.99, "exclude_from_weight_decay": [], **fields}, lamb),
        "Muon": ({"name": "muon", "vectors": {"beta_2": 0.99}, "exclude_from_weight_decay": [], **fields}, muon),
    }


BIAS = {"model.output_bias": "frequency"}
VARIANTS = {
    "digits": Task(
        title="Digits-LSTM, 20 epochs: local steps",
        base="digits/lstm_small_batch",
        small=32,
        optimizers=_optimizers(adamw=0.005, lamb=0.02, muon=0.005, global_clipnorm=1.0),
        evaluations={16: "32 steps", 4: "64 steps"},
        fields={"duration": "20 epochs", "schedule.warmup_epochs": 1.0},
        seeds=(0, 1, 2, 3, 4),
    ),
    "mnist_lstm": Task(
        title="MNIST-LSTM, 4 epochs: local steps",
        base="mnist/lstm_small_batch",
        small=128,
        optimizers=_optimizers(adamw=0.002, lamb=0.005, muon=0.005, global_clipnorm=0.05),
        evaluations={16: "64 steps", 4: "192 steps"},
        fields={"duration": "4 epochs", "schedule.warmup_epochs": 0.3},
    ),
    "ptb": Task(
        title="PTB-small, 2 epochs: local steps",
        base="ptb/small",
        small=20,
        optimizers=_optimizers(adamw=0.0035, lamb=0.007, muon=0.0035, global_clipnorm=0.25),
        evaluations={16: "96 steps", 4: "320 steps"},
        fields={**BIAS, "duration": "2 epochs", "schedule.warmup_epochs": 0.2},
    ),
    "bert": Task(
        title="WikiText-2, a BERT of 2 x 64, 4 epochs: local steps",
        base="bert/wikitext:32",
        small=64,
        optimizers=_optimizers(
            adamw=0.0014,
            lamb=0.0053,
            muon=0.0053,
            weight_decay=0.01,
            exclude_from_weight_decay="norm_and_bias",
            global_clipnorm=1.0,
        ),
        evaluations={16: "128 steps", 4: "512 steps"},
        fields={**BIAS, "duration": "4 epochs", "schedule.warmup_epochs": 0.4},
        micro_batch=256,
    ),
}


def get_sweep(task: str = "digits") -> sweeps.Sweep:
    application = VARIANTS[task]
    table = sweeps.Sweep(application.title)
    for optimizer, (fields, learning_rate) in application.optimizers.items():
        for name, config in _rows(application, fields, learning_rate).items():
            table.add(f"{optimizer}, {name}", config, seeds=application.seeds)
    return table


def _rows(task: Task, optimizer: Mapping[str, Any], learning_rate: float) -> dict[str, Config]:
    """The experiments of one optimizer, by the name of their row."""
    one = load_config(task.base)
    one.update_from_flattened_dict(task.fields)
    one.batch_size = one.schedule.batch_size = task.small
    one.schedule.update({"learning_rate": learning_rate, "rule": "none", "decay": "linear", "start": "0 epochs"})
    one.optimizer = dict(optimizer)
    one.keep_best = False
    rows = {"one worker": one}
    for workers, evaluate_every in task.evaluations.items():
        together = copy.deepcopy(one)
        together.batch_size = workers * task.small
        together.evaluate_every = evaluate_every
        together.schedule.rule = "sqrt"
        local = copy.deepcopy(together)
        if task.micro_batch:
            together.accumulation_steps = max(1, together.batch_size // task.micro_batch)
        rows[f"{workers} workers, data parallel"] = together
        local.simulated_replicas = workers
        ways = {f"every {every}": {"every": every, "outer": "average"} for every in EVERY}
        ways["every 8, Nesterov"] = {"every": 8, "outer": "nesterov"}
        for factor in OUTER_LEARNING_RATES:
            ways[f"every 8, outer learning rate {factor}"] = {
                "every": 8,
                "outer": "average",
                "outer_learning_rate": factor,
            }
        for name, local_steps in ways.items():
            row = copy.deepcopy(local)
            row.optimizer = {**optimizer, "local_steps": local_steps}
            rows[f"{workers} workers, {name}"] = row
        unscaled = copy.deepcopy(rows[f"{workers} workers, every 8"])
        unscaled.schedule.rule = "none"
        rows[f"{workers} workers, every 8, one worker's rate"] = unscaled
    return rows
