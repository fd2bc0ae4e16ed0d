"""ResNet-50 with Nesterov momentum, 90 epochs: the small batch, the linear rule and Adasum.

    tfbigbatch prepare-imagenet --source=FOLDER --validation_labels=SYNSETS \\
      --output_dir=data/imagenet_prepared
    tfbigbatch train --config=experiments/imagenet/resnet50.py --model_dir=runs/resnet50 \\
      --data_dir=data/imagenet_prepared

Expected top-1, not measured here: there is no ImageNet and no accelerator.

| variant | batch | top-1 | hardware, time | source |
|---|---:|---:|---|---|
| 256 | 256 | 76.4% | 8 GPUs, a day (8 P100: 29 hours) | Goyal et al. 2017 (arXiv:1706.02677), 23.60% error |
| 8k | 8,192 | 76.26% | 256 GPUs (P100), an hour | the same, linear rule, 5 epochs of warm-up |
| adasum_64k | 65,536 | 75.9% | a TPU v3-512 slice | Adasum (arXiv:2006.02924), on 64 GPUs by its own schedule |

adasum_64k has 128 examples a replica; with `"adasum": {"group_size": 2}` the two cores of a chip are averaged first, to
the small batch of 256.
"""

from tfbigbatch.config import Config, new_config, set_fields

FEW_STEPS = {"schedule.warmup_epochs": 5.0, "log_every": "10 steps"}
VARIANTS = {
    "256": {},
    # Learning rate 0.1 at 256 becomes 3.2.
    "8k": {**FEW_STEPS, "batch_size": 8192, "schedule.rule": "linear"},
    "adasum_64k": {**FEW_STEPS, "batch_size": 65536},
}


def get_config(variant: str = "256") -> Config:
    config = new_config("image_classification", model="resnet50")

    config.batch_size = 256
    config.duration = "90 epochs"
    # LARS without adaptation is momentum with L2 in the gradient; Keras' own decay is outside the momentum.
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 1e-4,
        "exclude_from_weight_decay": "norm_and_bias",
        "exclude_from_layer_adaptation": [".*"],
    }
    config.schedule.batch_size = 256
    config.schedule.learning_rate = 0.1
    config.schedule.decay = "multi_step"
    config.schedule.factor = 0.1
    config.schedule.boundaries = ("30 epochs", "60 epochs", "80 epochs")

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = "4 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "100 steps"
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    if variant == "adasum_64k":
        config.optimizer = {**config.optimizer.to_dict(), "adasum": True}
    return set_fields(config, VARIANTS[variant])
