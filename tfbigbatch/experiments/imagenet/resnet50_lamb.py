"""ResNet-50 with LAMB at batch 32,768 and 16,384, 90 epochs: You et al. 2020 (arXiv:1904.00962).

    tfbigbatch train --config=experiments/imagenet/resnet50_lamb.py:32k --model_dir=runs/resnet50_lamb_32k \\
      --data_dir=data/imagenet_prepared

Expected top-1, not measured here:

| variant | batch | top-1 | hardware |
|---|---:|---|---|
| 32k | 32,768 | 76.3% (76.337% in a log of its authors) | 256 TPU v3 chips or more |
| 16k | 16,384 | at least that | 128 TPU v3 chips or more |

16k is the recipe of 32k scaled down by LEGW: learning rate 0.028, 10 epochs of warm-up.
"""

from tfbigbatch.config import Config, set_fields, variant_of

VARIANTS = {
    "32k": {},
    "16k": {"batch_size": 16384, "duration": "7038 steps", "schedule.rule": "legw"},
}


def get_config(variant: str = "32k") -> Config:
    config = variant_of(__file__, "resnet50_lars.py:32k")
    # 90 epochs, 20 of them warm-up.
    config.duration = "3519 steps"
    config.optimizer = {
        "name": "lamb",
        "weight_decay": 1.5,
        # The authors decay biases too, and adapt them.
        "exclude_from_weight_decay": ["_bn/"],
        "global_clipnorm": 1.0,
    }
    config.schedule.learning_rate = 0.04
    config.schedule.warmup_epochs = 20.0
    config.schedule.decay = "linear"
    config.stop_at_target = 0.0
    config.evaluation_batch_size = 8192
    return set_fields(config, VARIANTS[variant])
