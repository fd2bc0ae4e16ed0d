"""A small GNMT on Multi30k at its batch and at 16 times it, 12 epochs, with the bias of the tokens' frequencies.

    tfbigbatch sweep --sweep=results/multi30k_output_bias_sweep.py --model_dir=runs/multi30k_output_bias \\
      --data_dir=data/multi30k_en_de --results=results/multi30k_output_bias \\
      --results_cache=results/runs.jsonl.gz

Muon, AdamW and Nesterov momentum, each with the bias that results/multi30k_sweep.py's rows lack. The trials of a row
are three learning rates a factor of 3 apart, on the validation set, in half the epochs with half the warm-up. Learning
rates are of batch 64, and follow the square root: AdamW's and momentum's have in the middle what was best without the
bias, and Muon's trials are those of results/ramp/sweep.py:multi30k. Nesterov momentum has no row at 64. BLEU on
test2016, three seeds. few_steps/sweep:multi30k has the same methods with five trials of 12 epochs each. Here such a run
is 28 to 40 minutes of one core without AVX-512. Measured: docs/results/multi30k.md.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

SMALL, LARGE = 64, 1024
# On a CPU a large batch is slower than its parts: its logits leave the caches.
MICRO_BATCH = 128
SEEDS = (0, 1, 2)
BUDGET = 3
CLIPPING = {"global_clipnorm": 5.0}
# Each optimizer and the learning rates of its trials.
METHODS = {
    "Muon": (
        {"name": "muon", "vectors": {"beta_2": 0.99}, "exclude_from_weight_decay": [], **CLIPPING},
        (0.0025, 0.0075, 0.022),
    ),
    "AdamW": ({"name": "adamw", "weight_decay": 0.0, "beta_2": 0.99, **CLIPPING}, (0.002, 0.006, 0.018)),
    "Nesterov": ({"name": "momentum", "momentum": 0.9, "nesterov": True, **CLIPPING}, (0.025, 0.075, 0.22)),
}
# Those that are run at the small batch too.
AT_SMALL = ("Muon", "AdamW")


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("Multi30k, a small GNMT, 12 epochs, with the output bias")
    for batch_size, name in [(LARGE, name) for name in METHODS] + [(SMALL, name) for name in AT_SMALL]:
        optimizer, rates = METHODS[name]
        config = _config(optimizer, batch_size, 12.0)
        trial = _config(optimizer, batch_size, 6.0)
        trial.evaluate_on = "validation"
        # Muon's trials are runs of results/ramp/sweep.py, which does not compile them.
        trial.jit_compile = name != "Muon"
        table.tune(name, config, trial=trial, learning_rates=rates, budget=BUDGET, seeds=SEEDS)
    return table


def _config(optimizer: Mapping[str, Any], batch_size: int, epochs: float) -> ConfigDict:
    config = load_config("multi30k/gnmt_small_batch")
    config.model.output_bias = "frequency"
    config.duration, config.evaluate_every = f"{epochs:g} epochs", f"{epochs / 2:g} epochs"
    config.batch_size = batch_size
    config.accumulation_steps = max(1, batch_size // MICRO_BATCH)
    config.jit_compile = True  # faster on one core: docs/performance.md
    config.schedule.batch_size = SMALL
    # At SMALL both rules give the same learning rate. "none" is the rule of results/ramp/sweep.py: its trials serve.
    config.schedule.rule = "none" if batch_size == SMALL else "sqrt"
    config.schedule.warmup_epochs = epochs / 12
    config.schedule.decay, config.schedule.start = "linear", "0 epochs"
    config.optimizer = dict(optimizer)
    config.keep_best = False
    return config
