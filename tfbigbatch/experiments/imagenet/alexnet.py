"""AlexNet and AlexNet-BN with momentum and LARS, 100 epochs: You et al. 2017 (arXiv:1708.03888).

    tfbigbatch train --config=experiments/imagenet/alexnet.py:bn_lars_8k \\
      --model_dir=runs/alexnet_bn_lars_8k --data_dir=data/imagenet_prepared

Expected top-1 (theirs with crops of one size; ours are Inception's). Not measured here.

| variant | batch | learning rate, warm-up | top-1 | hardware |
|---|---:|---|---:|---|
| 512 | 512 | 0.02 | 58% | one GPU, a day or two |
| lars_4k | 4,096 | that of 8,192 scaled by LEGW | 58% | 8 GPUs or TPU chips |
| lars_8k | 8,192 | NVIDIA/caffe, models/bvlc_alexnet/solver_8K.prototxt | 58% | 16 |
| bn_512 | 512 | 0.02 | 60% | one GPU, a day or two |
| bn_lars_4k | 4,096 | that of 8,192 scaled by LEGW | 60% | 8 |
| bn_lars_8k | 8,192 | NVIDIA/caffe, models/alexnet_bn/solver_8K.prototxt | 60% | 16 |
| bn_lars_16k | 16,384 | NVIDIA/caffe, models/alexnet_bn/solver_16k.prototxt | below 60% | 32 |
| bn_lars_32k | 32,768 | NVIDIA/caffe, models/alexnet_bn/solver_32k.prototxt | 58% | 64 |

The solver files are by one of the paper's authors; they bound the trust ratio by the learning rate.
"""

from tfbigbatch.config import Config, new_config, set_fields

# exclude_from_layer_adaptation None: every variable with weight decay is adapted.
LARS = {
    "batch_size": 8192,
    "schedule.learning_rate": 10.0,
    "optimizer.exclude_from_layer_adaptation": None,
    "log_every": "10 steps",
}
BN = {"model.name": "alexnet_bn"}
# 600 steps of warm-up.
BN_LARS = {**BN, **LARS, "schedule.warmup_epochs": 600 * 8192 / 1281167}
DOWN_TO_4K = {"schedule.batch_size": 8192, "batch_size": 4096, "schedule.rule": "legw"}
VARIANTS = {
    "512": {},
    "lars_4k": {**LARS, **DOWN_TO_4K},
    "lars_8k": LARS,
    "bn_512": BN,
    "bn_lars_4k": {**BN_LARS, **DOWN_TO_4K},
    "bn_lars_8k": BN_LARS,
    "bn_lars_16k": {**BN_LARS, "batch_size": 16384, "schedule.learning_rate": 24.0, "schedule.warmup_epochs": 5.0},
    "bn_lars_32k": {**BN_LARS, "batch_size": 32768, "schedule.learning_rate": 32.0, "schedule.warmup_epochs": 10.0},
}


def get_config(variant: str = "512") -> Config:
    config = new_config("image_classification", model="alexnet")

    config.model.image_size = 227
    config.batch_size = 512
    config.duration = "100 epochs"
    # LARS without adaptation is momentum with L2 in the gradient; Keras' own decay is outside the momentum.
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "exclude_from_weight_decay": "norm_and_bias",
        "exclude_from_layer_adaptation": [".*"],
    }
    config.schedule.learning_rate = 0.02
    config.schedule.decay = "polynomial"
    config.schedule.power = 2.0

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = "5 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "100 steps"
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return set_fields(config, VARIANTS[variant])
