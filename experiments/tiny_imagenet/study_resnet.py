"""A small ResNet on tiny-imagenet at 4 to 32 times the batch of its recipe, 20 epochs each.

    python tools/study.py --study=experiments/tiny_imagenet/study_resnet.py --model_dir=runs/tiny_imagenet_resnet \\
      --data_dir=data/tiny_imagenet_prepared --processes=2 --results=docs/results/tiny_imagenet_resnet

Three seeds at 128 and 2,048, one at 512 and 4,096. The rates of naive, linear and LEGW + LARS are the best at 128;
LARS, LAMB, Nesterov and AdamW are tuned at 2,048, and carried to the other batches by LEGW.
Every trial: docs/results/tuning/tiny_imagenet_*.md.
"""

import functools

from tfbigbatch import experiment, study

SEEDS = {512: (0,), 2048: (0, 1, 2), 4096: (0,)}
WARMUP_EPOCHS = 5.0  # of the linear rule: Goyal et al.
# LARS's best rate at 128; and the best rates at 2,048, with the warm-up there.
LARS_SMALL_RATE = 2.0
LARS_RATE, LAMB_RATE, NESTEROV_RATE, ADAMW_RATE, TUNED_WARMUP_EPOCHS = 8.0, 0.02, 1.6, 0.008, 2.5

EXCLUDED = {"exclude_from_weight_decay": "norm_and_bias", "exclude_from_layer_adaptation": "norm_and_bias"}
LARS = {"name": "lars", "momentum": 0.9, "weight_decay": 5e-4, **EXCLUDED}
LAMB = {"name": "lamb", "weight_decay": 0.05, **EXCLUDED}
ADAMW = {"name": "adamw", "weight_decay": 0.05, "exclude_from_weight_decay": "norm_and_bias"}


def get_study():
    table = study.new("tiny-imagenet, ResNet, 20 epochs", baseline="baseline")
    table.add("baseline", _base(128), seeds=(0, 1, 2), tuned="at 128")
    for batch_size, seeds in SEEDS.items():
        carried = functools.partial(study.carried, _base(batch_size), batch_size)
        tuned = functools.partial(carried, "legw", tuned_at=2048, warmup_epochs=TUNED_WARMUP_EPOCHS)
        rows = {
            "naive": (carried("none"), "not"),
            "linear": (carried("linear", warmup_epochs=WARMUP_EPOCHS), "at 128"),
            "LEGW + LARS": (carried("legw", optimizer=LARS, learning_rate=LARS_SMALL_RATE), "at 128"),
            "LARS": (tuned(optimizer=LARS, learning_rate=LARS_RATE), "at 2,048"),
            "LAMB": (tuned(optimizer=LAMB, learning_rate=LAMB_RATE), "at 2,048"),
            # The small batch's optimizer.
            "Nesterov": (tuned(learning_rate=NESTEROV_RATE), "at 2,048"),
            "AdamW": (tuned(optimizer=ADAMW, learning_rate=ADAMW_RATE), "at 2,048"),
        }
        for method, (config, where) in rows.items():
            table.add(method, config, seeds=seeds, tuned=where)
    return table


def _base(batch_size):
    config = experiment.variant_of(__file__, "resnet_small_batch.py")
    if batch_size > 128:
        # An epoch is down to 6 updates here: the small batch's 50 and 10 would be longer.
        config.log_every = "1 epochs"
        config.steps_per_execution = 1
    return config
