"""A benchmark of few steps: optimizers at 16 to 64 times the batch and the same epochs, each with as many trials.

    tfbigbatch sweep --sweep=few_steps/sweep:ptb --data_dir=data/ptb_prepared --model_dir=runs/few_steps/ptb \\
      --results=results/few_steps/few_steps_ptb --results_cache=results/few_steps/runs.jsonl.gz

README.md has the rules, the data's commands and the costs. Measured: results/few_steps.
"""

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config, set_fields

SEEDS = (0, 1, 2)
LINEAR = {"schedule.decay": "linear", "schedule.start": "0 epochs"}
BIAS = {"model.output_bias": "frequency"}
BUDGET = 5
# The trials begin at the middle rate, and at that much below and above it: 36 times from end to end.
SPREAD = 6.0

ADAM = {"beta_2": 0.99}
# Momentum is LARS without its adaptation: L2 decay in the gradient, as the recipes of images have it.
NESTEROV = {"name": "lars", "momentum": 0.9, "nesterov": True, "exclude_from_layer_adaptation": [".*"]}
# At this eeta a rate is a tenth of what it is at the usual 0.001: what is not adapted has the rate itself.
LARS = {
    "name": "lars",
    "momentum": 0.9,
    "nesterov": True,
    "eeta": 0.01,
    "exclude_from_layer_adaptation": "norm_and_bias",
}
LAMB = {"name": "lamb", "exclude_from_layer_adaptation": "norm_and_bias", **ADAM}
ADAMW = {"name": "adamw", **ADAM}
MUON = {"name": "muon", "vectors": ADAM}
# The trials begin at AdamW's rates; on AlexNet-BN the best with this graft is a quarter of AdamW's.
SHAMPOO = {"name": "shampoo", "graft": "rmsprop", "vectors": {"step": "adam", **ADAM}, "root": {"every": 5}, **ADAM}

# Rows at all batches: the name, which of a task's middle rates the trials begin at, and the optimizer.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Muon": ("Muon", MUON),
    "AdamW": ("AdamW", ADAMW),
    "LAMB": ("LAMB", LAMB),
    "Nesterov": ("Nesterov", NESTEROV),
    "LARS": ("LARS", LARS),
    "Shampoo": ("AdamW", SHAMPOO),
}
# Rows at the main batch alone.
VARIANTS_OF_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "AdamW, beta_2 0.95": ("AdamW", {**ADAMW, "beta_2": 0.95}),
    "AdamW, beta_2 0.999": ("AdamW", {**ADAMW, "beta_2": 0.999}),
    "Muon, trust ratio": ("Muon", {**MUON, "scale": "trust_ratio"}),
    "Muon, spectral": ("Muon", {**MUON, "scale": "spectral", "vectors": {**ADAM, "learning_rate_ratio": 0.1}}),
}
OF_TOKENS = {"Muon everywhere": ("Muon", {**MUON, "treatments": [("embedding|logits/kernel", "matrix")]})}
OF_LSTMS = {"Muon by gate": ("Muon", {**MUON, "treatments": [("lstm|recurrent", "gates")]})}
WITHOUT_BIAS = ("Muon", "AdamW", "LAMB", "Nesterov")


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title, folder: of its table, and of its data in the folder of all data.
      base: the experiment file of the small batch.
      small, main, others: batch sizes; three seeds are run at `main`.
      warmup_epochs: of every row.
      rates: the middle learning rate of each method at the main batch; at another it follows the square root.
      trial: what differs in the trials, by dotted fields: the data that they are evaluated on.
      trial_at_main: what else differs in those at the main batch.
      fields: what differs from the base in every row.
      optimizer: fields of every optimizer.
      decay, l2: weight decay apart from the gradient (AdamW, LAMB, Muon), and within it (LARS, Nesterov).
      micro_batch: examples of one pass; 0 for the whole batch.
      variants: further rows at the main batch.
    """

    title: str
    folder: str
    base: str
    small: int
    main: int
    others: tuple[int, ...]
    warmup_epochs: float
    rates: Mapping[str, float]
    trial: Mapping[str, Any]
    trial_at_main: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, Any] = dataclasses.field(default_factory=lambda: LINEAR)
    optimizer: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    decay: float = 0.0
    l2: float = 0.0
    micro_batch: int = 0
    variants: Mapping[str, Any] = dataclasses.field(default_factory=dict)


VARIANTS = {
    "ptb": Task(
        title="PTB-small, 4 epochs",
        folder="ptb_prepared",
        base="ptb/small",
        small=20,
        main=640,
        others=(320, 1280),
        warmup_epochs=0.2,  # 15 steps of 292 at 640
        rates={"Muon": 0.02, "AdamW": 0.02, "LAMB": 0.04, "Nesterov": 4.0, "LARS": 1.0},
        trial={"evaluate_on": "valid"},
        fields={**LINEAR, **BIAS, "duration": "4 epochs", "evaluate_every": "0.5 epochs"},
        optimizer={"global_clipnorm": 0.25},
        variants={**OF_TOKENS, **OF_LSTMS},
    ),
    "bert": Task(
        title="WikiText-2, a BERT of 2 x 64, 12 epochs",
        folder="wikitext_1k_32",
        base="bert/wikitext:32",
        small=64,
        main=2048,
        others=(1024, 4096),
        warmup_epochs=0.8,  # 26 steps of 391 at 2,048
        rates={"Muon": 0.03, "AdamW": 0.008, "LAMB": 0.03, "Nesterov": 0.3, "LARS": 1.0},
        trial={"evaluate_on": "minival", "data.minival": 2048},
        fields={**LINEAR, **BIAS},
        optimizer={"global_clipnorm": 1.0},
        decay=0.01,
        micro_batch=256,
        variants=OF_TOKENS,
    ),
    "mnist": Task(
        title="MNIST, all images in a step, 35 steps",
        folder="mnist",
        base="mnist/cnn_full_batch",
        small=1000,
        main=60_000,
        others=(),
        warmup_epochs=7.0,
        rates={"Muon": 0.03, "AdamW": 0.005, "LAMB": 0.1, "Nesterov": 0.1, "LARS": 1.0},
        trial={"evaluate_on": "minival", "data.minival": 5000},
        # As many steps, each with a fifth of the 55,000 images that are left: a fifth of the time.
        trial_at_main={
            "batch_size": 11_000,
            "accumulation_steps": 11,
            "duration": "7 epochs",
            "evaluate_every": "1 epochs",
            "schedule.batch_size": 11_000,
            "schedule.warmup_epochs": 1.4,
        },
        # The decay of its authors.
        fields={
            "duration": "35 epochs",
            "evaluate_every": "5 epochs",
            "checkpoint_every": "5 epochs",
            "log_every": "1 epochs",
        },
        micro_batch=1000,
    ),
    "alexnet_bn": Task(
        title="tiny-imagenet, AlexNet-BN, 20 epochs",
        folder="tiny_imagenet_prepared",
        base="tiny_imagenet/alexnet_bn_small_batch",
        small=128,
        main=2048,
        others=(4096, 8192),
        warmup_epochs=2.5,
        rates={"Muon": 0.02, "AdamW": 0.002, "LAMB": 0.02, "Nesterov": 0.1, "LARS": 1.6},
        trial={"evaluate_on": "minival", "data.minival": 2500},
        decay=0.05,
        l2=5e-4,
    ),
    "mnist_lstm": Task(
        title="MNIST-LSTM, 25 epochs",
        folder="mnist",
        base="mnist/lstm_small_batch",
        small=128,
        main=8192,
        others=(2048, 4096),
        warmup_epochs=2.5,
        rates={"Muon": 0.02, "AdamW": 0.016, "LAMB": 0.04, "Nesterov": 10.0, "LARS": 4.0},
        trial={"evaluate_on": "minival", "data.minival": 5000},
        optimizer={"global_clipnorm": 0.05},
        decay=0.01,
        l2=1e-4,
        variants=OF_LSTMS,
    ),
    "multi30k": Task(
        title="Multi30k, a small GNMT, 12 epochs",
        folder="multi30k_en_de",
        base="multi30k/gnmt_small_batch",
        small=64,
        main=1024,
        others=(2048, 4096),
        warmup_epochs=1.0,
        rates={"Muon": 0.03, "AdamW": 0.015, "LAMB": 0.02, "Nesterov": 0.3, "LARS": 1.0},
        trial={"evaluate_on": "validation"},
        fields={**LINEAR, **BIAS, "evaluate_every": "6 epochs"},
        optimizer={"global_clipnorm": 5.0},
        micro_batch=128,
        variants={**OF_TOKENS, **OF_LSTMS},
    ),
    "resnet": Task(
        title="tiny-imagenet, ResNet, 60 epochs",
        folder="tiny_imagenet_prepared",
        base="tiny_imagenet/resnet_small_batch",
        small=128,
        main=2048,
        others=(4096, 8192),
        warmup_epochs=5.0,
        rates={"Muon": 0.03, "AdamW": 0.03, "LAMB": 0.04, "Nesterov": 1.0, "LARS": 3.2},
        trial={"evaluate_on": "minival", "data.minival": 2500},
        decay=0.05,
        l2=5e-4,
    ),
}


def get_sweep(task: str = "ptb") -> sweeps.Sweep:
    application = VARIANTS[task]
    table = sweeps.Sweep(application.title, template="AdamW")
    for batch_size in (application.main, application.small, *application.others):
        for name, (family, optimizer) in METHODS.items():
            _tune(table, application, batch_size, name, family, optimizer)
        if batch_size == application.main:
            for name, (family, optimizer) in {**VARIANTS_OF_METHODS, **application.variants}.items():
                _tune(table, application, batch_size, name, family, optimizer)
            for name in WITHOUT_BIAS if BIAS.keys() <= application.fields.keys() else ():
                zero = {"model.output_bias": "zero"}
                _tune(table, application, batch_size, f"{name}, zero bias", *METHODS[name], fields=zero)
    return table


def _tune(
    table: sweeps.Sweep,
    task: Task,
    batch_size: int,
    name: str,
    family: str,
    optimizer: Mapping[str, Any],
    *,
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Adds a method at a batch size; `family` names the middle learning rate of its trials."""
    config = set_fields(config_of(task, batch_size, optimizer), fields or {})
    trial = set_fields(copy.deepcopy(config), task.trial)
    if batch_size == task.main:
        set_fields(trial, task.trial_at_main)
    middle = middle_learning_rate(task, family, batch_size)
    rates = [float(f"{factor * middle:.2g}") for factor in (1 / SPREAD, 1.0, SPREAD)]
    seeds = SEEDS if batch_size == task.main else SEEDS[:1]
    table.tune(name, config, trial=trial, learning_rates=rates, budget=BUDGET, seeds=seeds)


def middle_learning_rate(task: Task, family: str, batch_size: int) -> float:
    """Where the trials of a method begin, by the square root of the batch."""
    return task.rates[family] * math.sqrt(batch_size / task.main)


def config_of(task: Task, batch_size: int, optimizer: Mapping[str, Any]) -> Config:
    """The experiment of a row, without a learning rate."""
    config = set_fields(load_config(task.base), task.fields)
    config.batch_size = config.schedule.batch_size = batch_size
    config.schedule.rule = "none"
    config.schedule.warmup_epochs = task.warmup_epochs
    decay = task.l2 if optimizer["name"] == "lars" else task.decay
    common = {"exclude_from_weight_decay": "norm_and_bias", "weight_decay": decay, **task.optimizer}
    config.optimizer = {**common, **optimizer}
    if task.micro_batch:
        config.accumulation_steps = max(1, batch_size // task.micro_batch)
    if batch_size > task.small:
        # An epoch is down to a few steps here: the small batch's intervals would be longer.
        config.log_every = task.fields.get("log_every", "0.25 epochs")
    config.keep_best = False
    return config
