"""ResNet-50 and ResNet-50-v2 with LARS at batch 4,096 to 65,536, by MLPerf's rules.

    tfbigbatch train --config=experiments/imagenet/resnet50_lars.py:32k --model_dir=runs/resnet50_lars_32k \\
      --data_dir=data/imagenet_prepared

Expected: 75.9% top-1, where MLPerf stops, at these epochs. Not measured here.

| variant | batch | epoch (ten runs) | hardware | source |
|---|---:|---|---|---|
| 4k | 4,096 | 40 (39 to 42) | a TPU v4-64 slice, minutes (theirs) | MLPerf's reference convergence point |
| 8k | 8,192 | 42 (41 to 44) | a TPU v4-128 slice, minutes (theirs) | the same |
| 16k | 16,384 | within 56 | 128 TPU v3 chips | a public MLPerf 0.7 submission in JAX |
| 32k | 32,768 | 56 (55 to 57) | 256 TPU v3 chips or more | MLPerf's reference convergence point |
| 64k | 65,536 | 84.5 (83 to 86) | a TPU v3-512 slice or more (theirs) | the same |
| v2_32k | 32,768 | 64, to 76.3% | 1,024 TPU v3 chips, 2.2 minutes (theirs) | Ying et al. 2018 (arXiv:1811.06992) |

The reference points are those of mlcommons/logging, rcps_resnet.json of training 4.0.0. At 16,384 there is none (the
nearest, at 13,056, needs 45 epochs); at 32,768 the point's decay of 2,267 steps would end at epoch 74. Learning rate,
warm-up and momentum of v2_32k are those of a public MLPerf 0.7 submission at this batch.
"""

from tfbigbatch.config import Config, new_config, set_fields

FEW_STEPS = {"log_every": "10 steps"}
VARIANTS = {
    "4k": {},
    "8k": {**FEW_STEPS, "batch_size": 8192, "duration": "44 epochs", "schedule.learning_rate": 17.0},
    "16k": {**FEW_STEPS, "batch_size": 16384, "duration": "56 epochs", "schedule.learning_rate": 25.0},
    "32k": {
        **FEW_STEPS,
        "batch_size": 32768,
        "duration": "2892 steps",
        "schedule.learning_rate": 21.2,
        "schedule.warmup_epochs": 16.0,
        "optimizer.momentum": 0.94,
        "optimizer.weight_decay": 2.5e-5,
    },
    "64k": {
        **FEW_STEPS,
        "batch_size": 65536,
        "duration": "89 epochs",
        "schedule.learning_rate": 24.699,
        "schedule.warmup_epochs": 31.0,
        "optimizer.momentum": 0.951807,
        "optimizer.weight_decay": 1e-4,
    },
    "v2_32k": {
        **FEW_STEPS,
        "model.name": "resnet50_v2",
        "batch_size": 32768,
        "duration": "64 epochs",
        "schedule.learning_rate": 29.0,
        "schedule.warmup_epochs": 18.0,
        "stop_at_target": 0.0,
        "optimizer.momentum": 0.929,
        "optimizer.weight_decay": 1e-4,
        "evaluation_batch_size": 8192,
    },
}


def get_config(variant: str = "4k") -> Config:
    config = new_config("image_classification", model="resnet50")

    config.model.label_smoothing = 0.1
    config.batch_size = 4096
    config.duration = "47 epochs"
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "weight_decay": 2e-4,
        "exclude_from_weight_decay": "norm_and_bias",
    }
    config.schedule.learning_rate = 10.0
    config.schedule.warmup_epochs = 5.0
    config.schedule.decay = "mlperf_lars"
    config.stop_at_target = 0.759  # the rules' quality target

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 4096
    config.evaluate_every = "4 epochs"
    config.checkpoint_every = "4 epochs"
    config.log_every = "20 steps"
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return set_fields(config, VARIANTS[variant])
