"""Trials to choose the rates of the table by: momentum and LARS at 128, those, LAMB and AdamW at 2,048.

    tfbigbatch sweep --sweep=results/tuning/tiny_imagenet_alexnet_bn_sweep.py --processes=2 \\
      --model_dir=runs/tiny_imagenet_alexnet_rates --data_dir=data/tiny_imagenet_prepared \\
      --results=results/tuning/tiny_imagenet_alexnet_bn \\
      --results_cache=results/runs.jsonl.gz

At 2,048 the warm-up is LEGW's, 2.5 epochs. One seed, 0, the table's.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

LEGW_WARMUP_EPOCHS = 2.5
EXCLUDED = {"exclude_from_weight_decay": "norm_and_bias", "exclude_from_layer_adaptation": "norm_and_bias"}
# At this eeta a rate is a tenth of what it is at the usual 0.001: what is not adapted has the rate itself.
LARS = {"name": "lars", "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "eeta": 0.01, **EXCLUDED}
LAMB = {"name": "lamb", "weight_decay": 0.05, **EXCLUDED}
ADAMW = {"name": "adamw", "weight_decay": 0.05, "exclude_from_weight_decay": "norm_and_bias"}
# None is the small batch's optimizer, Nesterov momentum.
SMALL = {"Nesterov": (None, (0.025, 0.05, 0.1)), "LARS": (LARS, (0.2, 0.4, 0.8, 1.6))}
LARGE = {
    "LARS": (LARS, (0.8, 1.6, 3.2, 6.4)),
    "LAMB": (LAMB, (0.01, 0.02, 0.04)),
    "Nesterov": (None, (0.1, 0.2, 0.4)),
    "AdamW": (ADAMW, (0.004, 0.008, 0.016)),
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("tiny-imagenet, AlexNet-BN, 20 epochs: rates")
    small = load_config("tiny_imagenet/alexnet_bn_small_batch")
    large = sweeps.scaled(small, 2048, "legw", tuned_at=2048, warmup_epochs=LEGW_WARMUP_EPOCHS)
    large.log_every = "1 epochs"
    for base, trials in ((small, SMALL), (large, LARGE)):
        for name, (optimizer, rates) in trials.items():
            for rate in rates:
                rule = base.schedule.rule
                config = sweeps.scaled(base, base.batch_size, rule, optimizer=optimizer, learning_rate=rate)
                table.add(f"{name}, {rate}", config)
    return table
