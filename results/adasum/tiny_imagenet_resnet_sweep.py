"""Adasum beside averaging and summing: a small ResNet on tiny-imagenet at 32 pixels, 8 workers of batch 64.

    tfbigbatch sweep --sweep=results/adasum/tiny_imagenet_resnet_sweep.py --model_dir=runs/adasum_resnet \\
      --data_dir=data/tiny_imagenet_prepared --processes=2 --results=results/adasum/tiny_imagenet_resnet

Two epochs, 98 updates at 512. One worker's rate is chosen among RATES, and kept; the sum is averaging at eight times
this rate. Rows "x2" have twice the rate. Each worker normalises by its own batch in every row. All rows have seed 0;
BEST, the best of it for one worker, for averaging and for Adasum, have three seeds, as have the workers at one worker's
rate.
"""

import adasum_workers

from tfbigbatch import sweeps
from tfbigbatch.config import load_config, new_config

WORKERS = 8
SEEDS = (0, 1, 2)
TIMES = {"average": (2, 4, 16), "Adasum": (2, 4, 8)}
RATES = {
    "momentum": (0.02, 0.05, 0.1, 0.2, 0.4),
    "Adam": (0.001, 0.002, 0.004, 0.008),
    "LAMB": (0.005, 0.01, 0.02, 0.04, 0.08),
}
CHOSEN = {"momentum": 0.2, "Adam": 0.004, "LAMB": 0.04}
BEST = (
    "momentum, 0.2",
    "Adam, 0.004",
    "LAMB, 0.04",
    "momentum, sum",
    "momentum, Adasum, x2",
    "Adam, sum",
    "Adam, Adasum, x4",
    "LAMB, average, x2",
)
OPTIMIZERS = {
    "momentum": {"name": "momentum", "momentum": 0.9},
    "Adam": {"name": "adamw", "weight_decay": 0.0},
    "LAMB": {"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": []},
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("tiny-imagenet, ResNet, 2 epochs, 8 workers of batch 64", target=0.15)
    for name, optimizer in OPTIMIZERS.items():
        for rate in RATES[name]:
            row = f"{name}, {rate}"
            table.add(row, _one(optimizer, rate), seeds=SEEDS if row in BEST else SEEDS[:1], tuned="here")
        one = _one(optimizer, CHOSEN[name])
        one.log_every = "1 epochs"
        adasum_workers.add_workers(
            table, name, one, WORKERS, seeds=_seeds, tuned="at 64", times=TIMES, on_one_device=False
        )
    return table


def _one(optimizer, rate):
    config = new_config("image_classification", model="resnet")
    config.model.update(blocks=(1, 1, 1), width=32, stem="7x7_pool", image_size=32)
    config.data = load_config("tiny_imagenet/resnet_small_batch").data
    config.batch_size = config.schedule.batch_size = 64
    config.duration = config.checkpoint_every = "2 epochs"
    config.optimizer = optimizer
    config.schedule.learning_rate = rate
    config.schedule.warmup_epochs = 0.25
    config.evaluation_batch_size = 500
    config.evaluate_every = "0.25 epochs"
    config.log_every = "50 steps"
    return config


def _seeds(row):
    return SEEDS if row in BEST or row.endswith((", average", ", sum", ", Adasum")) else SEEDS[:1]
