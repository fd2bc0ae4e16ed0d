"""Adasum beside averaging and summing: LeNet-5 on MNIST with 4, 16 and 32 workers of batch 32, two epochs.

    tfbigbatch sweep --sweep=results/adasum/mnist_lenet_sweep.py --model_dir=runs/adasum_sweep \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES --processes=2 --results=results/adasum/mnist_lenet

Each optimizer's rate for one worker is kept: Adasum asks for no other. The average of the workers' gradients is the
gradient of the whole batch, so those rows run on one device; the sum is the average at the rate times the workers.
Rows "tuned" have rates for 16 workers; all rates are the best of results/adasum/mnist_lenet_rates_sweep.py. Measured:
results/adasum/mnist_lenet.json.
"""

import adasum_workers

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

WORKERS = (4, 16, 32)
SEEDS = (0, 1, 2)
OPTIMIZERS = {
    "momentum": {"name": "momentum", "momentum": 0.9},
    "Adam": {"name": "adamw", "weight_decay": 0.0},
    "LAMB": {"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": []},
}
RATES = {"momentum": 0.04, "Adam": 0.004, "LAMB": 0.005}
TUNED_AT = 16
TUNED = {
    "momentum": {"average": 0.08, "Adasum": 0.04},
    "Adam": {"average": 0.016, "Adasum": 0.004},
    "LAMB": {"average": 0.02, "Adasum": 0.01},
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("LeNet-5 on MNIST, 2 epochs, workers of batch 32", target=0.98)
    base = load_config("mnist/lenet_small_batch")
    for name, optimizer in OPTIMIZERS.items():
        one = sweeps.scaled(base, base.batch_size, "none", optimizer=optimizer, learning_rate=RATES[name])
        table.add(name, one, seeds=SEEDS, tuned="at 32")
        for workers in WORKERS:
            adasum_workers.add_workers(table, name, one, workers, seeds=SEEDS, tuned="at 32")
        for method, rate in TUNED[name].items():
            tuned = sweeps.scaled(one, base.batch_size * TUNED_AT, "none", learning_rate=rate)
            if method == "Adasum":
                tuned = adasum_workers.with_adasum(tuned, TUNED_AT)
            table.add(f"{name}, {method}, tuned", tuned, seeds=SEEDS, tuned="at 512")
    return table
