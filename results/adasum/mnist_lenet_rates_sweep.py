"""Trials to choose the rates of LeNet with Adasum by: one worker, and 16 averaged or combined by Adasum; one seed.

    tfbigbatch sweep --sweep=results/adasum/mnist_lenet_rates_sweep.py --model_dir=runs/adasum_rates \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES --processes=2 --results=results/adasum/mnist_lenet_rates

Seed 100, which no table uses. Measured: results/adasum/runs.jsonl.gz. The average of Adam is
best at the highest rate tried, Adasum with momentum and with LAMB at the lowest.
"""

import adasum_workers

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

WORKERS = 16
TRIALS = {
    "momentum": (
        {"name": "momentum", "momentum": 0.9},
        {"one": (0.01, 0.02, 0.04, 0.08), "average": (0.04, 0.08, 0.16, 0.32), "Adasum": (0.04, 0.08, 0.16)},
    ),
    "Adam": (
        {"name": "adamw", "weight_decay": 0.0},
        {
            "one": (0.0005, 0.001, 0.002, 0.004),
            "average": (0.002, 0.004, 0.008, 0.016),
            "Adasum": (0.002, 0.004, 0.008),
        },
    ),
    "LAMB": (
        {"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": []},
        {"one": (0.0025, 0.005, 0.01, 0.02), "average": (0.01, 0.02, 0.04, 0.08), "Adasum": (0.01, 0.02, 0.04)},
    ),
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("LeNet-5 on MNIST, 2 epochs: rates for one worker and for 16")
    base = load_config("mnist/lenet_small_batch")
    for name, (optimizer, rates_of) in TRIALS.items():
        for method, rates in rates_of.items():
            batch_size = base.batch_size * (1 if method == "one" else WORKERS)
            for rate in rates:
                config = sweeps.scaled(base, batch_size, "none", optimizer=optimizer, learning_rate=rate)
                if method == "Adasum":
                    config = adasum_workers.with_adasum(config, WORKERS)
                table.add(f"{name}, {method}, {rate}", config, seeds=(100,))
    return table
