"""Batch ramps: the small batch, the large one throughout, and a batch that grows from one to the other.

    tfbigbatch sweep --sweep=results/ramp/sweep.py:mnist_lstm --data_dir=data/mnist --model_dir=runs/ramp_mnist_lstm \\
      --results=results/ramp/mnist_lstm --results_cache=results/ramp/runs.jsonl.gz

`digits` (no data), `mnist_lstm`, `ptb`, `bert` and `multi30k`, with the data of few_steps/sweep. Muon, and where
runs are short momentum too. Each method has the same epochs at every batch: throughout, and in ramps that begin with
its small batch. The trials of a row are three learning rates a factor of 3 apart, around the small batch's recipe
and, at the large batch, what the square root makes of it; a ramp scales by the square root as it grows. Chosen on
data apart from the test set. `ptb`, whose runs are long, takes the rates that eight trials at each batch size found
in results/few_steps/jax_ptb.json: the square root leads from one to the other. On a GPU its rows have trials of their
own: `python benchmarks/few_steps_jax --sweep=results/ramp/sweep.py --tasks=ptb`. What they say: docs/batch_ramps.md.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config

SEEDS = (0, 1, 2)
BUDGET = 3
SPREAD = 3.0


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title: of its table.
      base: the experiment file of the small batch.
      small, large: batch sizes.
      methods: each optimizer and its learning rate at the small batch; the first is the recipe's.
      ramps: the fields of each ramp, by its name in the table.
      trial: what differs in the trials, by dotted fields: the data that they are evaluated on.
      fields: what differs from the base in every row.
      micro_batch: examples of one pass at the large batch; 0 for the whole batch.
      seeds: of the runs at the chosen learning rate.
      tuned: how the learning rates were found, where no row has trials of its own.
    """

    title: str
    base: str
    small: int
    large: int
    methods: Mapping[str, tuple[Mapping[str, Any], float]]
    ramps: Mapping[str, Mapping[str, Any]]
    trial: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    micro_batch: int = 0
    seeds: Sequence[int] = SEEDS
    tuned: str = ""


def _doubling(to: int, over: str, **fields: Any) -> dict[str, Any]:
    return {"name": "doubling", "to": to, "over": over, **fields}


def _muon(**fields: Any) -> dict[str, Any]:
    return {"name": "muon", "vectors": {"beta_2": 0.99}, "exclude_from_weight_decay": [], **fields}


BIAS = {"model.output_bias": "frequency"}
EXCLUDED = {"exclude_from_layer_adaptation": "norm_and_bias"}
BERT = {"weight_decay": 0.01, "exclude_from_weight_decay": "norm_and_bias", "global_clipnorm": 1.0}
GNMT = {"global_clipnorm": 5.0}
VARIANTS = {
    "digits": Task(
        title="Digits-LSTM, 40 epochs",
        base="digits/lstm_small_batch",
        small=32,
        large=512,
        methods={
            "momentum": ({"name": "momentum", "momentum": 0.9, "global_clipnorm": 1.0}, 0.3),
            "Muon": (_muon(global_clipnorm=1.0), 0.01),
        },
        ramps={
            "ramp over half": _doubling(512, "20 epochs"),
            "ramp over a quarter": _doubling(512, "10 epochs"),
            "ramp over half, linear": _doubling(512, "20 epochs", rule="linear"),
            "Seesaw": {"name": "seesaw", "to": 512},
        },
        trial={"evaluate_on": "minival", "data.minival": 287},
        fields={"schedule.warmup_epochs": 1.0},
        seeds=(0, 1, 2, 3, 4),
    ),
    "mnist_lstm": Task(
        title="MNIST-LSTM, 6 epochs",
        base="mnist/lstm_small_batch",
        small=128,
        large=2048,
        methods={
            "momentum": ({"name": "momentum", "momentum": 0.9, "global_clipnorm": 0.05}, 1.6),
            "Muon": (_muon(global_clipnorm=0.05), 0.005),
        },
        ramps={"ramp": _doubling(2048, "3 epochs")},
        trial={"evaluate_on": "minival", "data.minival": 5000},
        fields={"duration": "6 epochs", "schedule.warmup_epochs": 0.3},
    ),
    "ptb": Task(
        title="PTB-small, 4 epochs",
        base="ptb/small",
        small=20,
        large=640,
        methods={
            "Muon": (_muon(global_clipnorm=0.25), 0.0018),
            "LAMB": (
                {
                    "name": "lamb",
                    "beta_2": 0.99,
                    "exclude_from_weight_decay": [],
                    "exclude_from_layer_adaptation": "norm_and_bias",
                    "global_clipnorm": 0.25,
                },
                0.0071,
            ),
        },
        # Streams of text are cut into more with an epoch only.
        ramps={"ramp": {"name": "growth", "growth": (("1 epochs", 160), ("2 epochs", 640)), "micro_batch_size": 640}},
        fields={**BIAS, "duration": "4 epochs", "evaluate_every": "1 epochs", "schedule.warmup_epochs": 0.2},
        tuned="jax_ptb.md",
    ),
    "bert": Task(
        title="WikiText-2, a BERT of 2 x 64, 4 epochs",
        base="bert/wikitext:32",
        small=64,
        large=1024,
        methods={
            "Muon": (_muon(**BERT), 0.0053),
        },
        ramps={"ramp": _doubling(1024, "2 epochs", micro_batch_size=256)},
        trial={"evaluate_on": "minival", "data.minival": 2048},
        fields={**BIAS, "duration": "4 epochs", "schedule.warmup_epochs": 0.4},
        micro_batch=256,
    ),
    "multi30k": Task(
        title="Multi30k, a small GNMT, 6 epochs",
        base="multi30k/gnmt_small_batch",
        small=64,
        large=1024,
        methods={
            "Muon": (_muon(**GNMT), 0.0075),
        },
        # The passes of one bucket each stay as they are.
        ramps={"ramp": _doubling(1024, "3 epochs")},
        trial={"evaluate_on": "validation"},
        fields={**BIAS, "duration": "6 epochs", "evaluate_every": "3 epochs", "schedule.warmup_epochs": 0.5},
        micro_batch=128,
    ),
}


def get_sweep(task: str = "digits") -> sweeps.Sweep:
    application = VARIANTS[task]
    table = sweeps.Sweep(f"{application.title}: batch ramps")
    for method, (optimizer, learning_rate) in application.methods.items():
        small = _config(application, optimizer)
        large = copy.deepcopy(small)
        large.batch_size = application.large
        large.schedule.rule = "sqrt"
        if application.micro_batch:
            large.accumulation_steps = max(1, application.large // application.micro_batch)
        rows = {"small": small, "large": large}
        for name, fields in application.ramps.items():
            rows[name] = copy.deepcopy(small)
            rows[name].ramp.update(fields)
        for name, config in rows.items():
            row = f"{method}, {name}"
            if application.tuned:
                config.schedule.learning_rate = learning_rate
                table.add(row, config, seeds=application.seeds, tuned=application.tuned)
                continue
            trial = copy.deepcopy(config)
            trial.update_from_flattened_dict(application.trial)
            rates = [float(f"{factor * learning_rate:.2g}") for factor in (1 / SPREAD, 1.0, SPREAD)]
            table.tune(row, config, trial=trial, learning_rates=rates, budget=BUDGET, seeds=application.seeds)
    return table


def _config(task: Task, optimizer: Mapping[str, Any]) -> Config:
    config = load_config(task.base)
    config.update_from_flattened_dict(task.fields)
    config.batch_size = config.schedule.batch_size = task.small
    config.schedule.rule = "none"
    config.schedule.decay, config.schedule.start = "linear", "0 epochs"
    config.optimizer = dict(optimizer)
    config.keep_best = False
    return config
