"""ResNet-50 with LARS at batch 1,024 to 32,768, 90 epochs, by LEGW: You et al. 2019 (arXiv:1901.08256).

    tfbigbatch train --config=experiments/imagenet/resnet50_legw.py:8k --model_dir=runs/resnet50_legw_8k \\
      --data_dir=data/imagenet_prepared

The recipe was tuned at batch 512: learning rate 4, 10/64 epochs of warm-up. Expected top-1 (its authors' repository),
not measured here:

| variant | batch | learning rate | epochs of warm-up | top-1 | TPU v3 chips |
|---|---:|---:|---:|---:|---:|
| 1k | 1,024 | 5.66 | 0.3125 | 76.96% | 8, or GPUs |
| 2k | 2,048 | 8 | 0.625 | about 77.1% | 16 |
| 4k | 4,096 | 11.31 | 1.25 | 77.38% | 32 |
| 8k | 8,192 | 16 | 2.5 | 77.14% | 64 |
| 16k | 16,384 | 22.63 | 5 | 76.96% | 128 |
| 32k | 32,768 | 32 | 14 (theirs; the rule gives 10) | 76.75% | 256 |
"""

from tfbigbatch.config import Config, set_fields, variant_of

FEW_STEPS = {"log_every": "10 steps"}
VARIANTS = {
    "1k": {},
    "2k": {"batch_size": 2048},
    "4k": {"batch_size": 4096},
    "8k": {**FEW_STEPS, "batch_size": 8192},
    "16k": {**FEW_STEPS, "batch_size": 16384},
    "32k": {**FEW_STEPS, "batch_size": 32768, "schedule.warmup_epochs": 14 / 64},
}


def get_config(variant: str = "1k") -> Config:
    config = variant_of(__file__, "resnet50_lars.py:4k")
    config.batch_size = 1024
    config.duration = "90 epochs"
    config.optimizer.weight_decay = 1e-4
    config.schedule.rule = "legw"
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 4.0
    config.schedule.warmup_epochs = 10 / 64
    config.schedule.decay = "polynomial"
    config.stop_at_target = 0.0
    config.evaluation_batch_size = 1024
    config.checkpoint_every = "1 epochs"
    return set_fields(config, VARIANTS[variant])
