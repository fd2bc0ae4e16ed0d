"""Which warm-up carries a learning rate to a large batch: of as many epochs, of as many steps, or none.

    tfbigbatch sweep --sweep=results/few_steps/warmup_digits_sweep.py:digits --model_dir=runs/warmup_digits \\
      --results=results/few_steps/warmup_digits --results_cache=results/few_steps/runs.jsonl.gz
    python benchmarks/few_steps_jax --sweep=results/few_steps/warmup_digits_sweep.py --tasks=ptb,bert,mnist_lstm \\
      --data_dir=data \\
      --results=results/few_steps/warmup_runs.jsonl

`digits` needs no data; the others are tasks of few_steps/sweep, at its main batch. Muon and AdamW, at a small batch's
recipe that the square root carries to the large batch. Rows are warm-ups: none; of the recipe's epochs; 4 times as
long; and of half of the run. The same number of steps as at the small batch, LEGW's rule, is 16 times the epochs for
the digits, and longer than the whole run for the others. Learning rates are at the small batch. Each row has three
trials of its own and three seeds, the digits five.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config
from tfbigbatch.experiments.few_steps import sweep as few_steps
from tfbigbatch.schedules import durations

BUDGET = 3
SPREAD = 3.0
OPTIMIZERS = {"Muon": few_steps.MUON, "AdamW": few_steps.ADAMW}


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title: of its table.
      small: the batch size of the recipe.
      config: of the large batch, with AdamW.
      warmup_epochs: of the recipe.
      rates: the middle learning rate of each optimizer, at the small batch.
      trial: what differs in the trials, by dotted fields.
      longer: further warm-ups, by name, in epochs.
      seeds: of the runs at the chosen learning rate.
    """

    title: str
    small: int
    config: Config
    warmup_epochs: float
    rates: Mapping[str, float]
    trial: Mapping[str, Any]
    longer: Mapping[str, float] = dataclasses.field(default_factory=dict)
    seeds: Sequence[int] = (0, 1, 2)


def _digits() -> Task:
    config = load_config("digits/lstm_small_batch")
    config.batch_size = 512
    config.schedule.decay, config.schedule.start = "linear", "0 epochs"
    config.optimizer = {"name": "adamw", "global_clipnorm": 1.0, "weight_decay": 0.0}
    config.log_every = "1 epochs"
    return Task(
        title="Digits-LSTM at 512, 40 epochs",
        small=32,
        config=config,
        warmup_epochs=1.0,
        rates={"Muon": 0.01, "AdamW": 0.01},
        trial={"evaluate_on": "minival", "data.minival": 287},
        longer={"the same steps": 16.0},
        seeds=(0, 1, 2, 3, 4),
    )


def _of_few_steps(name: str) -> Task:
    application = few_steps.VARIANTS[name]
    config = few_steps.config_of(application, application.main, {"name": "adamw"})
    return Task(
        title=f"{application.title}, at {application.main:,}",
        small=application.small,
        config=config,
        warmup_epochs=application.warmup_epochs,
        rates={method: few_steps.middle_learning_rate(application, method, application.small) for method in OPTIMIZERS},
        trial=application.trial,
    )


VARIANTS = {
    "digits": _digits,
    "ptb": lambda: _of_few_steps("ptb"),
    "bert": lambda: _of_few_steps("bert"),
    "mnist_lstm": lambda: _of_few_steps("mnist_lstm"),
}


def get_sweep(task: str = "digits") -> sweeps.Sweep:
    application = VARIANTS[task]()
    table = sweeps.Sweep(f"{application.title}: warm-ups")
    warmups = {
        "no warm-up": 0.0,
        "the same epochs": application.warmup_epochs,
        "4 times the epochs": 4 * application.warmup_epochs,
        **application.longer,
        "half of the run": durations.parsed(application.config.duration)[0] / 2,
    }
    for method, optimizer in OPTIMIZERS.items():
        rates = [float(f"{factor * application.rates[method]:.2g}") for factor in (1 / SPREAD, 1.0, SPREAD)]
        # A task that names no exclusions has none, which is AdamW's default.
        unstated = {"exclude_from_weight_decay": []} if method == "Muon" else {}
        for name, epochs in warmups.items():
            config = copy.deepcopy(application.config)
            config.schedule.batch_size, config.schedule.rule = application.small, "sqrt"
            config.schedule.warmup_epochs = epochs
            config.optimizer = {**unstated, **config.optimizer.to_dict(), **optimizer}
            config.keep_best = False
            trial = copy.deepcopy(config)
            trial.update_from_flattened_dict(application.trial)
            table.tune(
                f"{method}, {name}",
                config,
                trial=trial,
                learning_rates=rates,
                budget=BUDGET,
                seeds=application.seeds,
            )
    return table
