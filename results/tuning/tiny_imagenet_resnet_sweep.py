"""Trials to choose the rates of the table by, one seed: 20 epochs of many, all 60 of the best.

    tfbigbatch sweep --sweep=results/tuning/tiny_imagenet_resnet_sweep.py --processes=2 \\
      --model_dir=runs/tiny_imagenet_rates --data_dir=data/tiny_imagenet_prepared \\
      --results=results/tuning/tiny_imagenet_resnet

At 2,048 the warm-up is an eighth of 20 epochs, a twelfth of 60. Seed 0, one of the table's three.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

# At 2,048, of 20 and of 60 epochs.
SHORT_WARMUP_EPOCHS, WARMUP_EPOCHS = 2.5, 5.0
NOT_DECAYED = {"exclude_from_weight_decay": "norm_and_bias"}
EXCLUDED = {**NOT_DECAYED, "exclude_from_layer_adaptation": "norm_and_bias"}
LARS = {"name": "lars", "momentum": 0.9, "weight_decay": 5e-4, **EXCLUDED}
# Biases and normalisation's parameters, which are not adapted, have the rate itself: ten times less of it at this eeta.
LARS_01 = {**LARS, "eeta": 0.01}
LARS_NESTEROV = {**LARS_01, "nesterov": True}
LAMB = {"name": "lamb", "weight_decay": 0.05, **EXCLUDED}
ADAMW = {"name": "adamw", "weight_decay": 0.05, **NOT_DECAYED}
# None is the small batch's optimizer, Nesterov momentum.
SMALL = {
    "Nesterov": (None, (0.05, 0.1, 0.2, 0.4)),
    "LARS": (LARS, (1.0, 2.0, 4.0, 8.0)),
    "LARS, eeta 0.01": (LARS_01, (0.4, 0.8)),
}
LARGE = {
    "Nesterov": (None, (0.4, 0.8, 1.6, 3.2)),
    "LARS": (LARS, (4.0, 8.0, 16.0, 32.0)),
    "LARS, eeta 0.01": (LARS_01, (0.8, 1.6, 3.2, 6.4)),
    "LARS, eeta 0.01, Nesterov": (LARS_NESTEROV, (4.8,)),
    "LAMB": (LAMB, (0.01, 0.02, 0.04, 0.08)),
    "AdamW": (ADAMW, (0.004, 0.008, 0.016)),
}
SMALL_LONG = {"Nesterov": (None, (0.1, 0.2))}
LARGE_LONG = {
    "Nesterov": (None, (0.8, 1.6)),
    "LARS, eeta 0.01, Nesterov": (LARS_NESTEROV, (3.2, 4.8)),
    "LAMB": (LAMB, (0.02, 0.04)),
    "AdamW": (ADAMW, (0.008, 0.016, 0.032)),
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("tiny-imagenet, ResNet: rates")
    small = load_config("tiny_imagenet/resnet_small_batch")
    small.duration = "20 epochs"
    small.evaluate_every = small.checkpoint_every = "2 epochs"
    _add(table, small, SMALL)
    _add(table, _large(small, SHORT_WARMUP_EPOCHS), LARGE)
    small = load_config("tiny_imagenet/resnet_small_batch")
    _add(table, small, SMALL_LONG, ", 60 epochs")
    _add(table, _large(small, WARMUP_EPOCHS), LARGE_LONG, ", 60 epochs")
    return table


def _large(small, warmup_epochs):
    config = sweeps.scaled(small, 2048, "legw", tuned_at=2048, warmup_epochs=warmup_epochs)
    config.log_every = "1 epochs"
    return config


def _add(table, base, trials, words=""):
    for name, (optimizer, rates) in trials.items():
        for rate in rates:
            rule = base.schedule.rule
            config = sweeps.scaled(base, base.batch_size, rule, optimizer=optimizer, learning_rate=rate)
            table.add(f"{name}, {rate}{words}", config)
