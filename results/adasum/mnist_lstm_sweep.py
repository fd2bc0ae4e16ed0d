"""Adasum beside averaging and summing: MNIST-LSTM with 8 workers of batch 128, two epochs.

    tfbigbatch sweep --sweep=results/adasum/mnist_lstm_sweep.py --model_dir=runs/adasum_lstm \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES --processes=2 --results=results/adasum/mnist_lstm

117 updates at 1,024. Each optimizer's rate for one worker is that of results/mnist_sweep.py (Adam's carried back to
128), and is kept; the sum is averaging at eight times this rate. Rows "x2" have twice the rate. All rows have seed 0;
BEST, the best of it for averaging and for Adasum, have three seeds, as have the rows at one worker's rate.
"""

import adasum_workers

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

WORKERS = 8
SEEDS = (0, 1, 2)
TIMES = {"average": (2, 4, 16), "Adasum": (0.5, 2, 4, 8, 16)}
BEST = (
    "momentum, sum",
    "momentum, Adasum, x8",
    "Adam, sum",
    "Adam, Adasum, x2",
    "LAMB, sum",
    "LAMB, Adasum, x4",
)
OPTIMIZERS = {
    "momentum": ({"name": "momentum", "momentum": 0.9, "global_clipnorm": 0.05}, 1.6),
    "Adam": ({"name": "adamw", "weight_decay": 0.0, "global_clipnorm": 1.0}, 0.002),
    "LAMB": ({"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": [], "global_clipnorm": 1.0}, 0.005),
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("MNIST-LSTM, 2 epochs, 8 workers of batch 128", target=0.95)
    base = load_config("mnist/lstm_small_batch")
    base.duration = "2 epochs"
    base.evaluate_every = "0.25 epochs"
    # The graph of eight replicas is made sooner.
    base.model.unroll = False
    for name, (optimizer, rate) in OPTIMIZERS.items():
        one = sweeps.scaled(base, base.batch_size, "none", optimizer=optimizer, learning_rate=rate)
        table.add(name, one, seeds=SEEDS, tuned="at 128")
        one.log_every = "1 epochs"
        adasum_workers.add_workers(table, name, one, WORKERS, seeds=_seeds, tuned="at 128", times=TIMES)
    return table


def _seeds(row):
    return SEEDS if row in BEST or row.endswith((", average", ", sum", ", Adasum")) else SEEDS[:1]
