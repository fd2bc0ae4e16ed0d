"""MNIST-LSTM at 8 to 128 times the batch of its recipe, 25 epochs each: how well each method carries it.

    tfbigbatch sweep --sweep=results/mnist_sweep.py --model_dir=runs/mnist_sweep \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES --processes=2 --results=results/mnist

Three seeds at 8,192, one at 1,024 and 16,384. The methods with a rule carry the recipe of lstm_small_batch.py,
unchanged; LAMB and LARS have a rate of their own, the best of three and four tried at 128. Nesterov and AdamW, in
common use, are tuned at 8,192, three and four rates, and the best is carried to the other two batches by LEGW.
Every trial: results/tuning/mnist_*.md.
"""

import functools

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

# The best of three and of four rates at 8,192, with the warm-up there.
NESTEROV_RATE, ADAMW_RATE, TUNED_WARMUP_EPOCHS = 12.8, 0.016, 2.5
# The best of three and of four rates at 128.
LAMB_RATE, LARS_RATE = 0.005, 8.0

WARMUP_EPOCHS = 5.0  # of the rules with a fixed warm-up: Goyal et al.
SEEDS = {1024: (0,), 8192: (0, 1, 2), 16384: (0,)}

LAMB = {"name": "lamb", "weight_decay": 0.01, "exclude_from_weight_decay": ["bias"], "global_clipnorm": 1.0}
# Clipped as the momentum is: the biases, which are not adapted, need it.
LARS = {"name": "lars", "weight_decay": 0.0001, "exclude_from_weight_decay": ["bias"], "global_clipnorm": 0.05}
NESTEROV = {"name": "momentum", "momentum": 0.9, "nesterov": True, "global_clipnorm": 0.05}
ADAMW = {"name": "adamw", "weight_decay": 0.01, "global_clipnorm": 1.0}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("MNIST-LSTM, 25 epochs", baseline="baseline", target=0.98)
    table.add("baseline", _base(128), seeds=(0, 1, 2), tuned="at 128")
    for batch_size, seeds in SEEDS.items():
        scaled = functools.partial(sweeps.scaled, _base(batch_size), batch_size)
        tuned = functools.partial(scaled, "legw", tuned_at=8192, warmup_epochs=TUNED_WARMUP_EPOCHS)
        rows = {
            "naive": (scaled("none"), "not"),
            "linear": (scaled("linear", warmup_epochs=WARMUP_EPOCHS), "at 128"),
            "sqrt": (scaled("sqrt", warmup_epochs=WARMUP_EPOCHS), "at 128"),
            "LEGW": (scaled("legw"), "at 128"),
            "LEGW + LAMB": (scaled("legw", optimizer=LAMB, learning_rate=LAMB_RATE), "at 128"),
            "LEGW + LARS": (scaled("legw", optimizer=LARS, learning_rate=LARS_RATE), "at 128"),
            "Nesterov": (tuned(optimizer=NESTEROV, learning_rate=NESTEROV_RATE), "at 8,192"),
            "AdamW": (tuned(optimizer=ADAMW, learning_rate=ADAMW_RATE), "at 8,192"),
        }
        for method, (config, where) in rows.items():
            table.add(method, config, seeds=seeds, tuned=where)
    return table


def _base(batch_size):
    config = load_config("mnist/lstm_small_batch")
    if batch_size > 128:
        # An epoch is down to 4 updates here: the small batch's 50 and 10 would be longer.
        config.log_every = "1 epochs"
    return config
