"""Trials to choose the rates of the table by, five epochs each: AdamW and LAMB at 64, Nesterov momentum at 1,024.

    tfbigbatch sweep --sweep=results/tuning/multi30k_sweep.py --model_dir=runs/multi30k_rates \\
      --data_dir=data/multi30k_en_de --processes=2 --results=results/tuning/multi30k \\
      --results_cache=results/runs.jsonl.gz

BLEU on the validation set, seed 0. At 1,024 the warm-up is LEGW's, an epoch. Measured: docs/results/multi30k.md.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

SETTINGS = {"global_clipnorm": 5.0}
ADAPTED = {"weight_decay": 0.0, "beta_2": 0.98, **SETTINGS}
MOMENTUM = {"name": "momentum", "momentum": 0.9, "nesterov": True, **SETTINGS}
SMALL = {
    "AdamW": ({"name": "adamw", **ADAPTED}, (0.003, 0.006, 0.012)),
    "LAMB": ({"name": "lamb", "exclude_from_weight_decay": [], **ADAPTED}, (0.005, 0.01, 0.02)),
}
NESTEROV_RATES = (0.1, 0.3, 1.0)


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("Multi30k, a small GNMT, 5 epochs: rates")
    config = load_config("multi30k/gnmt_small_batch")
    config.duration = config.evaluate_every = "5 epochs"
    config.evaluate_on = "validation"
    for name, (optimizer, rates) in SMALL.items():
        for rate in rates:
            table.add(f"{name}, {rate}", sweeps.scaled(config, 64, "none", optimizer=optimizer, learning_rate=rate))
    config.accumulation_steps = 8  # micro-batches of 128, as in results/multi30k_sweep.py
    config.log_every = "1 epochs"
    for rate in NESTEROV_RATES:
        recipe = {"tuned_at": 1024, "learning_rate": rate, "warmup_epochs": 1.0}
        table.add(f"Nesterov, {rate}", sweeps.scaled(config, 1024, "none", optimizer=MOMENTUM, **recipe))
    return table
