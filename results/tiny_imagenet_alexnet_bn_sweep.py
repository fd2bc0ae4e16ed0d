"""A small AlexNet-BN on tiny-imagenet at 16 and 32 times the batch of its recipe, 20 epochs each.

    tfbigbatch sweep --sweep=results/tiny_imagenet_alexnet_bn_sweep.py \\
      --model_dir=runs/tiny_imagenet_alexnet_bn --data_dir=data/tiny_imagenet_prepared --processes=2 \\
      --results=results/tiny_imagenet_alexnet_bn \\
      --results_cache=results/runs.jsonl.gz

One seed. The rates of naive, linear and LEGW + LARS are the best at 128; LARS, LAMB, Nesterov and AdamW are tuned at
2,048, and carried to 4,096 by LEGW. Every trial: results/tuning/tiny_imagenet_alexnet_bn.json.
"""

import functools

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

BATCH_SIZES = (2048, 4096)
WARMUP_EPOCHS = 5.0  # of the linear rule: Goyal et al.
# LARS's best rate at 128; and the best rates at 2,048, with the warm-up there.
LARS_SMALL_RATE = 0.4
LARS_RATE, LAMB_RATE, NESTEROV_RATE, ADAMW_RATE, TUNED_WARMUP_EPOCHS = 1.6, 0.02, 0.1, 0.004, 2.5

NOT_DECAYED = {"exclude_from_weight_decay": "norm_and_bias"}
EXCLUDED = {**NOT_DECAYED, "exclude_from_layer_adaptation": "norm_and_bias"}
# At this eeta a rate is a tenth of what it is at the usual 0.001: what is not adapted has the rate itself.
LARS = {"name": "lars", "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "eeta": 0.01, **EXCLUDED}
LAMB = {"name": "lamb", "weight_decay": 0.05, **EXCLUDED}
ADAMW = {"name": "adamw", "weight_decay": 0.05, **NOT_DECAYED}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("tiny-imagenet, AlexNet-BN, 20 epochs", baseline="baseline")
    table.add("baseline", _base(128), seeds=(0,), tuned="at 128")
    for batch_size in BATCH_SIZES:
        scaled = functools.partial(sweeps.scaled, _base(batch_size), batch_size)
        tuned = functools.partial(scaled, "legw", tuned_at=2048, warmup_epochs=TUNED_WARMUP_EPOCHS)
        table.add("naive", scaled("none"), tuned="not")
        table.add("linear", scaled("linear", warmup_epochs=WARMUP_EPOCHS), tuned="at 128")
        table.add("LEGW + LARS", scaled("legw", optimizer=LARS, learning_rate=LARS_SMALL_RATE), tuned="at 128")
        table.add("LARS", tuned(optimizer=LARS, learning_rate=LARS_RATE), tuned="at 2,048")
        table.add("LAMB", tuned(optimizer=LAMB, learning_rate=LAMB_RATE), tuned="at 2,048")
        # The small batch's optimizer.
        table.add("Nesterov", tuned(learning_rate=NESTEROV_RATE), tuned="at 2,048")
        table.add("AdamW", tuned(optimizer=ADAMW, learning_rate=ADAMW_RATE), tuned="at 2,048")
    return table


def _base(batch_size):
    config = load_config("tiny_imagenet/alexnet_bn_small_batch")
    if batch_size > 128:
        # An epoch is down to 6 updates here: the small batch's 50 and 10 would be longer.
        config.log_every = "1 epochs"
    return config
