"""A small ResNet on tiny-imagenet at 4 to 32 times the batch of its recipe, 60 epochs each.

    tfbigbatch sweep --sweep=results/tiny_imagenet_resnet_sweep.py --model_dir=runs/tiny_imagenet_resnet \\
      --data_dir=data/tiny_imagenet_prepared --processes=2 --results=results/tiny_imagenet_resnet \\
      --results_cache=results/runs.jsonl.gz

Three seeds at 128 and of most rows at 2,048, one of all else. The rates of naive, linear and LEGW + LARS are the best
at 128; LARS, LAMB, Nesterov and AdamW are tuned at 2,048, and carried to the other batches by LEGW.
Every trial: results/tuning/tiny_imagenet_resnet.json.
"""

import functools

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

TUNED_AT, SEEDS = 2048, (0, 1, 2)
WARMUP_EPOCHS = 5.0  # of the linear rule, Goyal et al.; and of the rates tuned at 2,048
# LARS's best rate at 128, and the best rates at 2,048.
LARS_SMALL_RATE = 0.8
LARS_RATE, LAMB_RATE, NESTEROV_RATE, ADAMW_RATE = 3.2, 0.04, 1.6, 0.032

NOT_DECAYED = {"exclude_from_weight_decay": "norm_and_bias"}
EXCLUDED = {**NOT_DECAYED, "exclude_from_layer_adaptation": "norm_and_bias"}
# At this eeta a rate is a tenth of what it is at the usual 0.001: what is not adapted has the rate itself.
LARS = {"name": "lars", "momentum": 0.9, "weight_decay": 5e-4, "eeta": 0.01, **EXCLUDED}
LARS_NESTEROV = {**LARS, "nesterov": True}
LAMB = {"name": "lamb", "weight_decay": 0.05, **EXCLUDED}
ADAMW = {"name": "adamw", "weight_decay": 0.05, **NOT_DECAYED}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("tiny-imagenet, ResNet, 60 epochs", baseline="baseline")
    table.add("baseline", _base(128), seeds=SEEDS, tuned="at 128")
    for batch_size in (512, TUNED_AT, 4096):
        scaled = functools.partial(sweeps.scaled, _base(batch_size), batch_size)
        tuned = functools.partial(scaled, "legw", tuned_at=TUNED_AT, warmup_epochs=WARMUP_EPOCHS)
        seeds = SEEDS if batch_size == TUNED_AT else SEEDS[:1]
        table.add("naive", scaled("none"), seeds=seeds, tuned="not")
        if batch_size == TUNED_AT:
            table.add("linear", scaled("linear", warmup_epochs=WARMUP_EPOCHS), tuned="at 128")
            small_lars = scaled("legw", optimizer=LARS, learning_rate=LARS_SMALL_RATE)
            table.add("LEGW + LARS", small_lars, tuned="at 128")
        rows = {
            "LARS": tuned(optimizer=LARS_NESTEROV, learning_rate=LARS_RATE),
            "LAMB": tuned(optimizer=LAMB, learning_rate=LAMB_RATE),
            # The small batch's optimizer.
            "Nesterov": tuned(learning_rate=NESTEROV_RATE),
            "AdamW": tuned(optimizer=ADAMW, learning_rate=ADAMW_RATE),
        }
        for method, config in rows.items():
            table.add(method, config, seeds=seeds, tuned="at 2,048")
    return table


def _base(batch_size):
    config = load_config("tiny_imagenet/resnet_small_batch")
    if batch_size > 128:
        # An epoch is down to 6 updates here: the small batch's 50 and 10 would be longer.
        config.log_every = "1 epochs"
    return config
