"""Where the loss of few steps is: short runs at a small and a large batch, with and without the output bias.

    tfbigbatch sweep --sweep=results/why/plateau_sweep.py:ptb --data_dir=data/ptb_prepared \\
      --model_dir=runs/ptb_plateau \\
      --results_cache=results/why/runs.jsonl.gz
    tfbigbatch report --explain --sweep=results/why/plateau_sweep.py:ptb --model_dir=runs/ptb_plateau \\
      --results=results/why/ptb_plateau

`ptb`, `bert` and `multi30k`, with the data of few_steps/sweep. A task has the recipe's method at both batches, and
at the large one AdamW and Muon; each without and with the output bias at the log of the tokens' frequency. The recipe's
learning rate is carried to the large batch by LEGW; those of AdamW and Muon are the best of few trials. "2 x longer"
and "4 x longer" have as many times the steps at the same batch: they show whether a path is only too short. One seed.
What the runs say: docs/why-large-batches-lose-accuracy.md.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config

LONGER = (2, 4)


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title: of its table.
      base: the experiment file of the small batch.
      small, large: batch sizes.
      lengths: of a run at the small and at the large batch, as many examples, in `unit`.
      unit: of the lengths, "steps" or "epochs".
      warmup_part: the warm-up is this part of a run: 20 for a twentieth.
      methods: each optimizer and its learning rate: the first is the recipe's, at `small`; the others are at `large`.
      no_bias: the output bias of the rows without frequencies: the recipe's.
      fields: what else differs from the base, by dotted fields.
      micro_batch: examples of one pass; 0 for the whole batch.
    """

    title: str
    base: str
    small: int
    large: int
    lengths: tuple[int, int]
    unit: str
    warmup_part: int
    methods: Mapping[str, tuple[Mapping[str, Any], float]]
    no_bias: str
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    micro_batch: int = 0


PTB = {"global_clipnorm": 0.25}
BERT = {"weight_decay": 0.01, "exclude_from_weight_decay": "norm_and_bias", "global_clipnorm": 1.0}
# Gradients of a mean over tokens are a thirteenth of those over sentences, which are clipped at 5.
MULTI30K = {"global_clipnorm": 0.4}

VARIANTS = {
    "ptb": Task(
        title="PTB-small, half an epoch",
        base="ptb/small",
        small=20,
        large=80,
        lengths=(1162, 291),  # 291 steps are as many as four epochs at 640 have
        unit="steps",
        warmup_part=20,
        methods={
            "SGD": ({"name": "momentum", "momentum": 0.0, **PTB}, 20.0),
            "AdamW": ({"name": "adamw", "beta_2": 0.99, "weight_decay": 0.0, **PTB}, 0.02),
            "Muon": ({"name": "muon", "vectors": {"beta_2": 0.95}, "exclude_from_weight_decay": [], **PTB}, 0.02),
        },
        no_bias="uniform",
        fields={"schedule.decay": "linear", "schedule.start": "0 epochs", "evaluate_on": "valid"},
    ),
    "bert": Task(
        title="WikiText-2, a BERT of 2 x 64, 3 epochs",
        base="bert/wikitext:32",
        small=64,
        large=2048,
        lengths=(3, 3),
        unit="epochs",
        warmup_part=15,  # as 26 of 391 steps in twelve epochs
        methods={
            "LAMB": ({"name": "lamb", "epsilon": 1e-6, **BERT}, 0.005),
            "AdamW": ({"name": "adamw", "beta_2": 0.99, **BERT}, 0.008),
            "Muon": ({"name": "muon", "vectors": {"beta_2": 0.95}, **BERT}, 0.03),
        },
        no_bias="zero",
        fields={"schedule.rule": "none"},
    ),
    "multi30k": Task(
        title="Multi30k, a small GNMT, 2 epochs",
        base="multi30k/gnmt_small_batch",
        small=64,
        large=512,
        lengths=(2, 2),
        unit="epochs",
        warmup_part=12,
        methods={
            "AdamW": ({"name": "adamw", "beta_2": 0.98, "weight_decay": 0.0, **MULTI30K}, 0.006),
            "Muon": ({"name": "muon", "vectors": {"beta_2": 0.98}, "exclude_from_weight_decay": [], **MULTI30K}, 0.03),
        },
        no_bias="uniform",
        # The mean over tokens: steps of short and of long sentences compare. The loss is of interest here, and a short
        # search ends sooner.
        fields={
            "model.loss_over": "tokens",
            "evaluate_on": "validation",
            "data.beam_size": 1,
            "data.max_decoded": 40,
        },
        # On a CPU a large batch is slower than its parts: its logits leave the caches.
        micro_batch=128,
    ),
}


def get_sweep(task: str = "ptb") -> sweeps.Sweep:
    application = VARIANTS[task]
    recipe = next(iter(application.methods))
    table = sweeps.Sweep(application.title, baseline=f"{recipe}, bias, small batch")

    def add(method: str, suffix: str, batch_size: int, bias: str, times: int = 1) -> None:
        config = _config(application, method, batch_size, bias, times)
        tuned = application.small if method == recipe else application.large
        table.add(f"{method}{suffix}", config, tuned=f"at {tuned:,}")

    biases = {application.no_bias: "", "frequency": ", bias"}
    for bias, suffix in biases.items():
        add(recipe, f"{suffix}, small batch", application.small, bias)
    for method in application.methods:
        for bias, suffix in biases.items():
            add(method, suffix, application.large, bias)
    for method in application.methods:
        for times in LONGER:
            add(method, f", bias, {times} x longer", application.large, "frequency", times)
    return table


def _config(task: Task, method: str, batch_size: int, bias: str, times: int) -> Config:
    config = load_config(task.base)
    config.update_from_flattened_dict(task.fields)
    config.batch_size = config.schedule.batch_size = batch_size
    config.model.output_bias = bias
    optimizer, rate = task.methods[method]
    config.optimizer = dict(optimizer)
    is_recipe = method == next(iter(task.methods))
    config.schedule.learning_rate = rate * math.sqrt(batch_size / task.small) if is_recipe else rate
    length = task.lengths[batch_size == task.large] * times
    if task.unit == "steps":
        config.schedule.warmup = f"{length // task.warmup_part} steps"
    else:
        config.schedule.warmup_epochs = length / task.warmup_part
    config.duration = config.evaluate_every = config.checkpoint_every = f"{length} {task.unit}"
    config.keep_best = False
    if task.micro_batch:
        config.accumulation_steps = max(1, batch_size // task.micro_batch)
    # Each step at the large batch, and windows of as many examples at the small one.
    config.log_every = f"{task.large // batch_size} steps"
    return config
