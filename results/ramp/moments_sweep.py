"""Moments and weight decay at 16 times the batch: left alone, or scaled with it.

    tfbigbatch sweep --sweep=results/ramp/moments_sweep.py:bert --data_dir=data/wikitext_1k_32 \\
      --model_dir=runs/moments/bert --results=results/ramp/moments_bert \\
      --results_cache=results/ramp/moments_bert_runs.jsonl
    tfbigbatch sweep --sweep=results/ramp/moments_sweep.py:mnist_lstm --data_dir=data/mnist \\
      --model_dir=runs/moments/mnist_lstm --results=results/ramp/moments_mnist_lstm \\
      --results_cache=results/ramp/moments_mnist_lstm_runs.jsonl

`digits` needs no data. AdamW, LAMB and Muon, each with the arguments of the small batch as they are; with the half-life
of the second moments kept in examples (`schedule.moments`); with that of all moments; and with weight decay x learning
rate x steps kept (`schedule.weight_decay`). Network, data, decay and clipping are those of few_steps/sweep; MNIST's
epochs are those of results/ramp/sweep.py.

Learning rates are at the small batch, and follow the square root. Every row has three trials of its own, seed 100, on
training data that is held out: a factor of 2.5 apart, around the middle rate of few_steps/sweep. Where the best is at
an end, up to three more follow it. Then two seeds on the test set, three on MNIST and five on the digits. These are
fewer trials than few_steps/sweep has: a difference within the spread of the seeds says nothing.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config

SEEDS = (0, 1)
BUDGET = 3
SPREAD = 2.5

# The usual arguments at the small batch: Muon's momentum and betas are 0.95, 0.9 and 0.95, and LAMB's are Adam's.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "AdamW": {"name": "adamw", "beta_1": 0.9, "beta_2": 0.999},
    "LAMB": {"name": "lamb", "beta_1": 0.9, "beta_2": 0.999, "exclude_from_layer_adaptation": "norm_and_bias"},
    "Muon": {"name": "muon", "momentum": 0.95, "vectors": {"beta_1": 0.9, "beta_2": 0.95}},
}
SCALED: dict[str, dict[str, str]] = {
    "": {},
    " half-life of beta_2": {"schedule.moments": "half_life"},
    " half-life of all": {"schedule.moments": "half_life_all"},
    " weight decay kept": {"schedule.weight_decay": "kept"},
}


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title: of its table.
      base: the experiment file of the small batch.
      small, large: batch sizes; `large` is 16 times `small`.
      warmup_epochs: of every row.
      rates: the middle learning rate of each optimizer, at the small batch.
      minival: training examples that are held out for the trials.
      clipnorm: of the global norm.
      fields: what differs from the base in every row, by dotted fields.
      micro_batch: examples of one pass; 0 for the whole batch.
      seeds: of the runs at the chosen learning rate.
    """

    title: str
    base: str
    small: int
    large: int
    warmup_epochs: float
    rates: Mapping[str, float]
    minival: int
    clipnorm: float
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    micro_batch: int = 0
    seeds: Sequence[int] = SEEDS


VARIANTS = {
    "digits": Task(
        title="Digits-LSTM at 16 times the batch, 40 epochs",
        base="digits/lstm_small_batch",
        small=32,
        large=512,
        warmup_epochs=1.0,
        rates={"AdamW": 0.005, "LAMB": 0.02, "Muon": 0.005},
        minival=287,
        clipnorm=1.0,
        seeds=(0, 1, 2, 3, 4),
    ),
    "mnist_lstm": Task(
        title="MNIST-LSTM at 16 times the batch, 6 epochs",
        base="mnist/lstm_small_batch",
        small=128,
        large=2048,
        warmup_epochs=0.6,
        rates={"AdamW": 0.002, "LAMB": 0.005, "Muon": 0.0025},
        minival=5000,
        clipnorm=0.05,
        fields={"duration": "6 epochs"},
        seeds=(0, 1, 2),
    ),
    "bert": Task(
        title="WikiText-2, a BERT of 2 x 64, at 16 times the batch, 12 epochs",
        base="bert/wikitext:32",
        small=64,
        large=1024,
        warmup_epochs=0.8,
        rates={"AdamW": 0.0014, "LAMB": 0.0053, "Muon": 0.0053},
        minival=2048,
        clipnorm=1.0,
        fields={"model.output_bias": "frequency"},
        micro_batch=256,
    ),
}


def get_sweep(task: str = "bert") -> sweeps.Sweep:
    application = VARIANTS[task]
    table = sweeps.Sweep(application.title)
    for optimizer in OPTIMIZERS:
        middle = application.rates[optimizer]
        rates = [float(f"{factor * middle:.2g}") for factor in (1 / SPREAD, 1.0, SPREAD)]
        for name, fields in SCALED.items():
            config = _config(application, optimizer)
            config.update_from_flattened_dict(fields)
            trial = copy.deepcopy(config)
            trial.evaluate_on, trial.data.minival = "minival", application.minival
            row, seeds = f"{optimizer}{name}", application.seeds
            table.tune(row, config, trial=trial, learning_rates=rates, budget=BUDGET, seeds=seeds)
    return table


def _config(task: Task, optimizer: str) -> Config:
    config = load_config(task.base)
    config.update_from_flattened_dict(task.fields)
    config.batch_size = task.large
    config.schedule.update(
        {
            "batch_size": task.small,
            "rule": "sqrt",
            "warmup_epochs": task.warmup_epochs,
            "decay": "linear",
            "start": "0 epochs",
        }
    )
    config.optimizer = {
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": task.clipnorm,
        **OPTIMIZERS[optimizer],
    }
    if task.micro_batch:
        config.accumulation_steps = task.large // task.micro_batch
    # An epoch is down to a few steps: the small batch's intervals would be longer.
    config.log_every = "0.25 epochs"
    config.keep_best = False
    return config
